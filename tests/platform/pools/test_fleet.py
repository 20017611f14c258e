"""Gateways and workers as they live and die: real processes, real sockets, real Postgres."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from uuid import uuid4

import pytest

from loraplex.engine.protocol.errors import (
    EngineFailure,
    NoWorkerAvailable,
    PromptTooLong,
    WorkerLost,
)
from loraplex.engine.protocol.generation import FinishReason, RequestOutput
from loraplex.platform.pools.errors import FleetOverloaded
from loraplex.platform.pools.fleet import WORKER_WAIT_SECONDS, WorkerFleet
from loraplex.platform.pools.recounting import Placement
from loraplex.platform.pools.views import WorkerState
from tests.engine.worker.echo_engine import MAX_TOKENS, POISON
from tests.engine.worker.wire import a_request
from tests.platform.pools.conftest import (
    ControllerListener,
    Launch,
    MakeFleet,
    WorkerProcess,
    is_live,
    until,
    view_of,
)

LONG = MAX_TOKENS - 10


def new_id() -> str:
    return uuid4().hex


async def run(
    fleet: WorkerFleet, base_name: str, prompt: list[int] | None = None, max_tokens: int = 5
) -> list[RequestOutput]:
    request = a_request(new_id(), prompt, max_tokens)
    async with aclosing(fleet.generate(base_name, request, Placement())) as outputs:
        return [output async for output in outputs]


def in_flight(fleet: WorkerFleet, base_name: str) -> Counter[str]:
    """This gateway's requests on each of the test's own workers."""
    views = fleet.workers()
    return Counter({view.id: view.in_flight for view in views if view.base_name == base_name})


async def until_live(fleet: WorkerFleet, worker: WorkerProcess) -> None:
    await until(lambda: is_live(fleet, worker))


@pytest.fixture
async def worker(
    listener: ControllerListener, launch: Launch, fleet: WorkerFleet
) -> AsyncIterator[WorkerProcess]:
    """One that the fleet has found."""
    async with listener.running():
        started = launch()
        await until_live(fleet, started)
        yield started


async def test_a_request_runs_to_its_end(
    worker: WorkerProcess, fleet: WorkerFleet, base_name: str
) -> None:
    outputs = await run(fleet, base_name, [7, 8], max_tokens=5)
    assert [token for output in outputs for token in output.token_ids] == [7, 8, 7, 8, 7]
    assert [output.finish_reason for output in outputs[:-1]] == [None] * 4
    assert outputs[-1].finish_reason is FinishReason.LENGTH
    limits = fleet.limits(base_name)
    assert limits is not None
    assert limits.max_model_tokens == MAX_TOKENS


async def test_requests_of_a_burst_spread_over_all_workers(
    listener: ControllerListener, launch: Launch, fleet: WorkerFleet, base_name: str
) -> None:
    async with listener.running():
        workers = [launch(), launch(), launch()]
        await until(lambda: all(is_live(fleet, worker) for worker in workers))
        running = [asyncio.create_task(run(fleet, base_name, max_tokens=300)) for _ in range(12)]
        await until(lambda: in_flight(fleet, base_name).total() == 12)
        assert in_flight(fleet, base_name) == {worker.id: 4 for worker in workers}
        for task in running:
            assert (await task)[-1].finish_reason is FinishReason.LENGTH


async def test_two_gateways_share_two_workers(
    listener: ControllerListener, launch: Launch, make_fleet: MakeFleet, base_name: str
) -> None:
    first, second = await make_fleet(), await make_fleet()
    async with listener.running():
        workers = [launch(), launch()]
        await until(
            lambda: all(is_live(fleet, one) for fleet in (first, second) for one in workers)
        )
        prompts = {first: [1], second: [2]}
        results = await asyncio.gather(
            *(run(fleet, base_name, prompts[fleet], 50) for fleet in (first, second) * 4)
        )
        for number, outputs in enumerate(results):
            tokens = [token for output in outputs for token in output.token_ids]
            assert tokens == [1 + number % 2] * 50


async def test_the_second_gateway_avoids_the_worker_that_the_first_keeps_busy(
    listener: ControllerListener, launch: Launch, make_fleet: MakeFleet, base_name: str
) -> None:
    first, second = await make_fleet(), await make_fleet()
    async with listener.running():
        busy = launch()
        await until(lambda: is_live(first, busy))
        tasks = [asyncio.create_task(run(first, base_name, max_tokens=LONG)) for _ in range(3)]
        await until(lambda: in_flight(first, base_name).total() == 3)
        idle = launch()
        await until(lambda: is_live(second, idle) and is_live(second, busy))
        await until(lambda: reported_running(second, busy) == 3)
        tasks += [asyncio.create_task(run(second, base_name, max_tokens=LONG)) for _ in range(3)]
        await until(lambda: in_flight(second, base_name).total() == 3)
        assert in_flight(second, base_name) == {busy.id: 0, idle.id: 3}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_before_a_worker_only_so_many_requests_wait(
    listener: ControllerListener, launch: Launch, make_fleet: MakeFleet, base_name: str
) -> None:
    fleet = await make_fleet(max_worker_requests=3)
    async with listener.running():
        await until_live(fleet, launch())
        fleet.check_room(base_name, sequences=8)  # one request's own, before an idle worker
        tasks = [asyncio.create_task(run(fleet, base_name, max_tokens=LONG)) for _ in range(3)]
        await until(lambda: in_flight(fleet, base_name).total() == 3)
        with pytest.raises(FleetOverloaded) as caught:
            fleet.check_room(base_name, sequences=1)
        assert (caught.value.retry_after_seconds or 0) >= 1
        await until_live(fleet, launch())
        fleet.check_room(base_name, sequences=1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_killed_workers_requests_end_soon_and_others_go_on(
    listener: ControllerListener, launch: Launch, fleet: WorkerFleet, base_name: str
) -> None:
    async with listener.running():
        workers = [launch(), launch()]
        await until(lambda: all(is_live(fleet, worker) for worker in workers))
        streams = [
            fleet.generate(base_name, a_request(new_id(), max_tokens=500), Placement())
            for _ in workers
        ]
        for stream in streams:
            assert (await anext(stream)).output_tokens == 1
        victim, survivor = workers
        killed_at = time.monotonic()
        victim.kill()
        results = await asyncio.gather(
            *(drain(stream) for stream in streams), return_exceptions=True
        )
        lost = [result for result in results if isinstance(result, WorkerLost)]
        whole = [result for result in results if not isinstance(result, BaseException)]
        assert len(lost) == len(whole) == 1
        assert whole[0][-1].finish_reason is FinishReason.LENGTH
        view = view_of(fleet, victim.id)
        assert view is not None
        assert view.state is WorkerState.LOST
        assert killed_at < time.monotonic()
        victim.start()
        await until(lambda: is_live(fleet, victim))
        survivor.kill()
        assert (await run(fleet, base_name))[-1].finish_reason is FinishReason.LENGTH


async def drain(stream: object) -> list[RequestOutput]:
    return [output async for output in stream]  # type: ignore[attr-defined]


async def test_a_kill_is_noticed_within_the_silence(
    worker: WorkerProcess, fleet: WorkerFleet, base_name: str
) -> None:
    stream = fleet.generate(base_name, a_request(new_id(), max_tokens=LONG), Placement())
    await anext(stream)
    worker.kill()
    killed_at = time.monotonic()
    with pytest.raises(WorkerLost):
        await drain(stream)
    assert time.monotonic() - killed_at < 2.5


async def test_a_stopped_process_is_silent_and_comes_back(
    worker: WorkerProcess, fleet: WorkerFleet, base_name: str
) -> None:
    stream = fleet.generate(base_name, a_request(new_id(), max_tokens=LONG), Placement())
    await anext(stream)
    worker.signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    with pytest.raises(WorkerLost, match="silent"):
        await drain(stream)
    assert 1.0 < time.monotonic() - stopped_at < 3.5
    with pytest.raises(NoWorkerAvailable):
        await run(fleet, base_name)
    worker.signal(signal.SIGCONT)
    await until(lambda: is_live(fleet, worker))
    assert (await run(fleet, base_name))[-1].finish_reason is FinishReason.LENGTH
    await until(lambda: reported_running(fleet, worker) == 0)  # the lost one was cancelled


def reported_running(fleet: WorkerFleet, worker: WorkerProcess) -> int | None:
    view = view_of(fleet, worker.id)
    return view.load.running_requests if view and view.load else None


async def test_closing_the_stream_cancels_on_the_worker(
    worker: WorkerProcess, fleet: WorkerFleet, base_name: str
) -> None:
    stream = fleet.generate(base_name, a_request(new_id(), max_tokens=LONG), Placement())
    await anext(stream)
    await until(lambda: reported_running(fleet, worker) == 1)
    await stream.aclose()
    await stream.aclose()
    await until(lambda: reported_running(fleet, worker) == 0)
    assert in_flight(fleet, base_name) == {worker.id: 0}


async def test_a_cancelled_task_cancels_on_the_worker(
    worker: WorkerProcess, fleet: WorkerFleet, base_name: str
) -> None:
    task = asyncio.create_task(run(fleet, base_name, max_tokens=LONG))
    await until(lambda: reported_running(fleet, worker) == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: reported_running(fleet, worker) == 0)


async def test_a_stopped_worker_is_not_routed_to_and_exits_cleanly(
    listener: ControllerListener, launch: Launch, fleet: WorkerFleet, base_name: str
) -> None:
    async with listener.running():
        stopped, other = launch(), launch()
        await until(lambda: is_live(fleet, stopped) and is_live(fleet, other))
        stopped.signal(signal.SIGTERM)
        for _ in range(8):  # some of these find it shutting down, and are sent elsewhere
            assert (await run(fleet, base_name))[-1].finish_reason is FinishReason.LENGTH
        await until(lambda: stopped.status is not None)
        assert stopped.status == 0
        await until(lambda: view_of(fleet, stopped.id) is None)


async def test_workers_serve_on_while_the_controller_is_away(
    listener: ControllerListener, launch: Launch, fleet: WorkerFleet, base_name: str
) -> None:
    worker = launch()
    late = launch()
    async with listener.running():
        await until(lambda: is_live(fleet, worker) and is_live(fleet, late))
    assert (await run(fleet, base_name))[-1].finish_reason is FinishReason.LENGTH
    worker.kill()
    worker.start()
    assert (await run(fleet, base_name))[-1].finish_reason is FinishReason.LENGTH
    async with listener.running():
        await until(lambda: is_live(fleet, worker))


async def test_refusals_come_back_as_the_errors_they_were(
    worker: WorkerProcess, fleet: WorkerFleet, base_name: str
) -> None:
    with pytest.raises(PromptTooLong) as refused:
        await run(fleet, base_name, max_tokens=MAX_TOKENS)
    assert refused.value.field == "messages"
    with pytest.raises(EngineFailure):
        await run(fleet, base_name, [POISON])
    assert (await run(fleet, base_name))[-1].finish_reason is FinishReason.LENGTH


async def test_without_a_worker_the_answer_is_quick(fleet: WorkerFleet, base_name: str) -> None:
    began_at = time.monotonic()
    with pytest.raises(NoWorkerAvailable) as refused:
        await run(fleet, base_name)
    assert time.monotonic() - began_at < WORKER_WAIT_SECONDS + 1
    assert refused.value.retry_after_seconds is not None
    assert fleet.limits(base_name) is None


async def test_a_request_waits_a_moment_for_a_worker_that_is_coming_up(
    listener: ControllerListener, launch: Launch, make_fleet: MakeFleet, base_name: str
) -> None:
    async with listener.running():
        worker = launch()
        watcher = await make_fleet()
        await until(lambda: is_live(watcher, worker))
        newcomer = await make_fleet()  # has connected to nobody yet
        assert (await run(newcomer, base_name))[-1].finish_reason is FinishReason.LENGTH


async def test_a_gateway_that_stops_ends_its_streams(
    listener: ControllerListener, launch: Launch, make_fleet: MakeFleet, base_name: str
) -> None:
    async with listener.running():
        worker = launch()
        leaving, staying = await make_fleet(), await make_fleet()
        await until(lambda: is_live(leaving, worker) and is_live(staying, worker))
        task = asyncio.create_task(run(leaving, base_name, max_tokens=LONG))
        await until(lambda: reported_running(staying, worker) == 1)
        await leaving.stop()
        with pytest.raises(WorkerLost, match="shutting down"):
            await task
        await until(lambda: reported_running(staying, worker) == 0)
