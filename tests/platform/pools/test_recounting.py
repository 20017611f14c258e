"""What became of requests, as all workers of a base together tell it."""

import asyncio
import signal
from contextlib import aclosing
from uuid import uuid4

from loraplex.engine.protocol.generation import FinalCounts, FinishReason
from loraplex.engine.protocol.messages import Recounted
from loraplex.platform.pools.recounting import Placement, Questions, combine
from tests.engine.worker.echo_engine import MAX_TOKENS
from tests.engine.worker.wire import a_request
from tests.platform.pools.conftest import (
    DEADLINE_SECONDS,
    ControllerListener,
    Launch,
    MakeFleet,
    is_live,
    until,
)


def counts(request_id: str, output_tokens: int, attempt: int = 0) -> FinalCounts:
    return FinalCounts(
        request_id=request_id,
        attempt=attempt,
        prompt_tokens=3,
        cached_tokens=0,
        output_tokens=output_tokens,
        finish_reason=FinishReason.LENGTH,
    )


def test_what_two_workers_had_counts_as_the_later_one_used_it() -> None:
    answers = [
        Recounted("i1", 1, [counts("a", 9), counts("b", 2)], ["c"]),
        Recounted("i2", 1, [counts("a", 4, attempt=1)], []),
    ]
    for order in (answers, answers[::-1]):
        recount = combine(order)
        assert recount.ended == {"a": counts("a", 4, attempt=1), "b": counts("b", 2)}
        assert recount.running == {"c"}
        assert recount.is_complete


def test_a_worker_that_does_not_answer_leaves_the_picture_incomplete() -> None:
    recount = combine([Recounted("i1", 1, [counts("a", 9)], []), None])
    assert not recount.is_complete
    assert "a" in recount.ended


async def test_each_question_gets_its_own_answer_and_a_late_one_harms_nobody() -> None:
    questions = Questions()
    first, one = questions.ask()
    second, other = questions.ask()
    questions.answer(Recounted("i", second, [], ["b"]))
    questions.answer(Recounted("i", first, [], ["a"]))
    assert [(await one).running, (await other).running] == [["a"], ["b"]]
    late, given_up = questions.ask()
    given_up.cancel()
    await asyncio.sleep(0)
    questions.answer(Recounted("i", late, [], []))


async def test_a_gateway_learns_what_another_ones_requests_used(
    listener: ControllerListener, launch: Launch, make_fleet: MakeFleet, base_name: str
) -> None:
    async with listener.running():
        workers = [launch(), launch()]
        heir, dead = await make_fleet(), await make_fleet()
        fleets = [heir, dead]
        await until(lambda: all(is_live(fleet, one) for fleet in fleets for one in workers))
        placements = {uuid4().hex: Placement() for _ in range(6)}
        for number, (name, placement) in enumerate(placements.items()):
            request = a_request(name, max_tokens=number + 1)
            async with aclosing(dead.generate(base_name, request, placement)) as outputs:
                assert len([output async for output in outputs]) == number + 1
        running, placement = uuid4().hex, Placement()
        stream = dead.generate(base_name, a_request(running, max_tokens=MAX_TOKENS - 9), placement)
        await anext(stream)

        recount = await heir.recount(base_name, [*placements, running, "unheard-of"])
        told = {name: one.output_tokens for name, one in recount.ended.items()}
        assert told == {name: number + 1 for number, name in enumerate(placements)}
        assert recount.running == {running}
        assert recount.is_complete

        await stream.aclose()
        dead.acknowledge(placements)
        heir.forget(base_name, [running])
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (await heir.recount(base_name, [*placements, running])).ended:
                pass


async def test_a_worker_that_hangs_is_not_waited_for(
    listener: ControllerListener, launch: Launch, make_fleet: MakeFleet, base_name: str
) -> None:
    async with listener.running():
        worker = launch()
        fleet = await make_fleet()
        await until(lambda: is_live(fleet, worker))
        worker.signal(signal.SIGSTOP)
        recount = await fleet.recount(base_name, ["a"])
        assert not recount.is_complete
        worker.signal(signal.SIGCONT)
