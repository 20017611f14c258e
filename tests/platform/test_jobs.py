import asyncio
import json
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from uuid import UUID, uuid4

import psutil
import pytest
import redis
from sqlalchemy import select

from loraplex.platform.admission.models import Reservation
from loraplex.platform.database.outbox import enqueue
from loraplex.platform.database.relay import publish_batch
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.processes import log_tail, running
from loraplex.platform.embedded.valkey import Valkey
from loraplex.platform.jobs import JobContext, make_celery, task_modules
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import MissingSetting, Settings
from loraplex.platform.sweeps import sweep_expired, sweep_lapsed_reservations
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.models import AuthFailure, WebSession
from tests.platform.jobs_worker import WORKER_OPTIONS, worker


@pytest.fixture
def valkey(tmp_path: Path) -> Valkey:
    """A broker of the test's own, not started yet."""
    return Valkey(tmp_path / "valkey", free_port())


@pytest.fixture
def settings(services: Settings, valkey: Valkey, tmp_path: Path) -> Settings:
    changes = {"broker_url": valkey.url, "data_dir": tmp_path}
    return Settings.model_validate(services.model_dump() | changes)


@pytest.fixture
def context(services: Settings) -> Iterator[JobContext]:
    context = JobContext.open(services)
    yield context
    context.close()


async def lapsed_reservation(system: Database) -> UUID:
    """A tenant whose only reservation has lapsed; its id."""
    administration = TenantAdministration(SecretKeys(["k" * 32]))
    async with system.unit_of_work() as session:
        tenant = await administration.create_tenant(session, f"t-{uuid4().hex}")
        key, _ = await administration.create_key(session, tenant, "ci")
        session.add(
            Reservation(
                tenant_id=tenant.id,
                request_id="dead",
                gateway_id="dead",
                api_key_id=key.id,
                expires_at=datetime.now(UTC) - timedelta(seconds=1),
            )
        )
    return tenant.id


async def has_reservation(system: Database, tenant_id: UUID) -> bool:
    async with system.unit_of_work() as session:
        mine = select(Reservation).where(Reservation.tenant_id == tenant_id)
        return await session.scalar(mine) is not None


async def swept(system: Database, tenant_id: UUID, log: Path) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            while await has_reservation(system, tenant_id):  # noqa: ASYNC110 - a row changes
                await asyncio.sleep(0.05)
            return
    raise AssertionError(f"the job was not done; the worker's log ends: {log_tail(log)}")


async def test_a_job_asked_for_in_a_transaction_is_done_by_a_worker(
    settings: Settings, valkey: Valkey, tmp_path: Path, system_database: Database
) -> None:
    """Two jobs after one another, so that a child's loop and connections serve more than one.

    The broker restarts in between and has lost everything; the worker finds it again.
    """
    jobs = make_celery(settings)

    async def do_one(log: Path) -> None:
        tenant_id = await lapsed_reservation(system_database)
        async with system_database.unit_of_work() as session:
            await enqueue(session, "loraplex.sweep_reservations", {})
        while await publish_batch(system_database, jobs):
            pass
        await swept(system_database, tenant_id, log)

    with worker(settings, tmp_path) as log:
        with running(valkey, tmp_path / "logs"):
            await do_one(log)
        with running(valkey, tmp_path / "logs"):
            await do_one(log)
            await do_one(log)
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert any("ready" in line["event"] for line in lines), "the worker logs in our form"
    assert valkey.password not in log.read_text()


def test_a_worker_whose_children_are_killed_goes_on_and_so_does_its_beat(
    settings: Settings, valkey: Valkey, tmp_path: Path
) -> None:
    def wait_for_line(*words: str, after: int = 0) -> int:
        """The number of the first later line with all words."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for number, line in enumerate(log.read_text().splitlines()):
                if number > after and all(word in line for word in words):
                    return number
            time.sleep(0.05)
        raise AssertionError(f"no {words} in the worker's log, which ends: {log_tail(log)}")

    with running(valkey, tmp_path / "logs"), worker(settings, tmp_path, "--beat") as log:
        wait_for_line("Sending due task")
        done = wait_for_line("succeeded in")
        (process,) = [
            child
            for child in psutil.Process().children()
            if str(WORKER_OPTIONS[0]) in child.cmdline() and "--beat" in child.cmdline()
        ]
        for child in process.children(recursive=True):
            child.kill()
        died = wait_for_line("beat_died", after=done)
        sent = wait_for_line("Sending due task", after=died)
        wait_for_line("succeeded in", after=sent)


async def test_messages_are_json_and_wait_for_their_acknowledgement(
    settings: Settings, valkey: Valkey, tmp_path: Path
) -> None:
    with running(valkey, tmp_path / "logs"):
        make_celery(settings).send_task("any", kwargs={"number": 1}, task_id="outbox-7")
        with redis.Redis.from_url(valkey.url) as client:
            message = json.loads(client.lindex("loraplex", 0))
    assert message["content-type"] == "application/json"
    assert (message["headers"]["task"], message["headers"]["id"]) == ("any", "outbox-7")


def test_a_job_is_acknowledged_late_within_limits(settings: Settings) -> None:
    configuration = make_celery(settings).conf
    assert configuration.task_acks_late
    assert configuration.task_reject_on_worker_lost
    assert configuration.worker_prefetch_multiplier == 1
    assert configuration.accept_content == ["json"]
    assert configuration.broker_connection_max_retries is None
    assert not configuration.worker_cancel_long_running_tasks_on_connection_loss


def test_every_job_ends_before_the_broker_would_give_it_to_another(settings: Settings) -> None:
    app = make_celery(settings)
    app.loader.import_default_modules()
    app.finalize()
    visibility = app.conf.broker_transport_options["visibility_timeout"]
    ours = [task for name, task in app.tasks.items() if name.startswith("loraplex.")]
    assert ours
    for task in ours:
        assert task.soft_time_limit < task.time_limit < visibility, task.name


def test_beat_asks_only_for_jobs_that_exist(settings: Settings) -> None:
    app = make_celery(settings)
    app.loader.import_default_modules()
    app.finalize()
    asked_for = {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert {"loraplex.sweep_reservations", "loraplex.sweep_expired"} <= asked_for
    assert asked_for <= set(app.tasks)


def test_components_contribute_modules_of_jobs() -> None:
    assert task_modules() == [
        "loraplex.platform.sweeps",
        "loraplex.platform.metering.sweeps",
        "loraplex.platform.webhooks.sweeps",
        "loraplex.platform.audit.sweeps",
        "loraplex.adapters_registry.tasks",
    ]


@pytest.mark.parametrize("name", ["broker_url", "database_system_url"])
def test_a_missing_address_is_named(services: Settings, name: str) -> None:
    incomplete = services.model_copy(update={name: None})
    with pytest.raises(MissingSetting) as caught:
        make_celery(incomplete)
        JobContext.open(incomplete)
    assert caught.value.field == f"LORAPLEX_{name.upper()}"


def test_a_context_runs_jobs_one_after_another_on_one_loop(context: JobContext) -> None:
    async def loop_and_ping(answer: int) -> tuple[int, int]:
        await context.database.ping()
        return id(asyncio.get_running_loop()), answer

    first, second = (context.run(loop_and_ping, number) for number in (1, 2))
    assert first[0] == second[0]
    assert (first[1], second[1]) == (1, 2)


def test_a_time_limit_cancels_the_job_before_the_next_begins(context: JobContext) -> None:
    class TimeLimitReached(Exception):
        pass

    ended: list[str] = []

    async def stuck() -> None:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            await asyncio.Event().wait()
        finally:
            ended.append("stuck")

    async def next_job() -> None:
        ended.append("next")

    def strike(_: int, __: FrameType | None) -> None:
        raise TimeLimitReached

    before = signal.signal(signal.SIGALRM, strike)
    try:
        with pytest.raises(TimeLimitReached):
            context.run(stuck)
    finally:
        signal.signal(signal.SIGALRM, before)
    context.run(next_job)
    assert ended == ["stuck", "next"]


async def test_sweeps_take_what_has_expired_and_leave_the_rest(
    services: Settings, system_database: Database
) -> None:
    context = JobContext(services, system_database, asyncio.Runner())
    tenant_id = await lapsed_reservation(system_database)
    now, day = datetime.now(UTC), timedelta(days=1)
    address = uuid4().hex
    async with system_database.unit_of_work() as session:
        key_id = await session.scalar(
            select(Reservation.api_key_id).where(Reservation.tenant_id == tenant_id)
        )
        for name, expires_at in ((b"ended", now - day), (b"lasting", now + day)):
            session.add(
                WebSession(
                    token_hash=name + address.encode(),
                    tenant_id=tenant_id,
                    api_key_id=key_id,
                    expires_at=expires_at,
                )
            )
        for window_start in (now - day, now):
            session.add(AuthFailure(address=address, window_start=window_start, failures=1))
    await sweep_lapsed_reservations(context)
    await sweep_expired(context)
    assert not await has_reservation(system_database, tenant_id)
    async with system_database.unit_of_work() as session:
        sessions = select(WebSession.token_hash).where(WebSession.tenant_id == tenant_id)
        assert (await session.scalars(sessions)).all() == [b"lasting" + address.encode()]
        failures = select(AuthFailure.window_start).where(AuthFailure.address == address)
        assert (await session.scalars(failures)).all() == [now]
