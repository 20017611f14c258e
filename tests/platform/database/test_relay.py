import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from sqlalchemy import func, select
from sqlalchemy.exc import ProgrammingError

from loraplex.platform.database.migrate import upgrade
from loraplex.platform.database.outbox import OutboxMessage, enqueue
from loraplex.platform.database.relay import publish_batch, run_relay
from loraplex.platform.database.roles import ROLES, create_roles
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.processes import running
from loraplex.platform.embedded.valkey import Valkey
from loraplex.platform.jobs import Jobs, make_celery
from loraplex.platform.settings import Settings

QUEUE = "loraplex"
PASSWORDS = {role: f"password-of-{role}" for role in ROLES}


@dataclass
class Installation:
    """A Postgres and a Valkey of this module's own, which can be stopped one by one."""

    folder: Path
    postgres: Postgres
    valkey: Valkey
    stack: ExitStack
    running_services: dict[str, ExitStack]

    def start(self, name: str) -> None:
        stack = self.stack.enter_context(ExitStack())
        stack.enter_context(running(getattr(self, name), self.folder / "logs"))
        self.running_services[name] = stack

    def stop(self, name: str) -> None:
        self.running_services.pop(name).close()

    def url(self, role: str) -> str:
        return self.postgres.url(role, PASSWORDS[role])

    def jobs(self) -> Jobs:
        return make_celery(Settings(data_dir=self.folder, broker_url=self.valkey.url))

    def queued(self) -> list[str]:
        """The names of the tasks that wait in the broker, oldest first."""
        with redis.Redis.from_url(self.valkey.url) as client:
            messages = client.lrange(QUEUE, 0, -1)
        assert isinstance(messages, list)
        return [json.loads(message)["headers"]["task"] for message in reversed(messages)]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder: Path = tmp_path_factory.mktemp("relay")
    with ExitStack() as stack:
        installation = Installation(
            folder,
            Postgres(folder / "postgres", free_port(), durable=False),
            Valkey(folder / "valkey", free_port()),
            stack,
            {},
        )
        installation.start("postgres")
        installation.start("valkey")
        create_roles(installation.postgres.superuser_url, PASSWORDS)
        upgrade(installation.url("loraplex_migrator"))
        yield installation


@pytest.fixture
async def app(installation: Installation) -> AsyncIterator[Database]:
    database = Database(installation.url("loraplex_app"))
    yield database
    await database.dispose()


@pytest.fixture
async def system(installation: Installation) -> AsyncIterator[Database]:
    database = Database(installation.url("loraplex_system"))
    yield database
    await database.dispose()


@pytest.fixture(autouse=True)
def empty_queue(installation: Installation) -> None:
    with redis.Redis.from_url(installation.valkey.url) as client:
        client.delete(QUEUE)


@asynccontextmanager
async def relaying(system: Database, jobs: Jobs) -> AsyncIterator[None]:
    relay = asyncio.create_task(run_relay(system, jobs))
    try:
        yield
    finally:
        relay.cancel()
        with pytest.raises(asyncio.CancelledError):
            await relay


async def ask(app: Database, *tasks: str) -> None:
    async with app.unit_of_work() as session:
        for task in tasks:
            await enqueue(session, task, {"number": 1})


async def unpublished(system: Database) -> int:
    async with system.unit_of_work() as session:
        waiting = OutboxMessage.published_at.is_(None)
        return await session.scalar(select(func.count(OutboxMessage.id)).where(waiting)) or 0


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(0.02)


async def test_messages_reach_the_broker_in_order_and_are_marked(
    installation: Installation, app: Database, system: Database
) -> None:
    await ask(app, "one", "two", "three")
    assert await publish_batch(system, installation.jobs()) == 3
    assert installation.queued() == ["one", "two", "three"]
    assert await publish_batch(system, installation.jobs()) == 0


async def test_a_message_of_a_transaction_that_failed_is_never_sent(
    installation: Installation, app: Database, system: Database
) -> None:
    with pytest.raises(ValueError, match="after the message"):
        async with app.unit_of_work() as session:
            await enqueue(session, "never", {})
            raise ValueError("after the message")
    assert await publish_batch(system, installation.jobs()) == 0


async def test_relays_that_run_at_once_send_each_message_once(
    installation: Installation, app: Database, system: Database
) -> None:
    names = [f"task-{number}" for number in range(30)]
    for name in names:
        await ask(app, name)
    jobs = installation.jobs()
    sent = await asyncio.gather(*(publish_batch(system, jobs) for _ in range(5)))
    assert sum(sent) == len(names)
    assert sorted(installation.queued()) == sorted(names)


async def test_a_message_is_sent_without_waiting_for_the_poll(
    installation: Installation,
    app: Database,
    system: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loraplex.platform.database.relay.POLL_SECONDS", 3600)
    async with relaying(system, installation.jobs()):
        for name in ("one", "two"):
            await ask(app, name)

            async def arrived(name: str = name) -> bool:
                return name in installation.queued()

            await until(arrived)


async def test_the_relay_outlives_its_services(
    installation: Installation, app: Database, system: Database
) -> None:
    async def arrived() -> bool:
        return installation.queued()[-1:] == [expected]

    async def all_marked() -> bool:
        return await unpublished(system) == 0

    async def refused() -> bool:
        """Whether an attempt is on record, and why it failed."""
        async with system.unit_of_work() as session:
            row = (await session.scalars(select(OutboxMessage).where(mine))).one()
            return row.attempts > 0 and row.last_error is not None

    mine = OutboxMessage.task == "while the broker was gone"
    async with relaying(system, installation.jobs()):
        await ask(app, expected := "before")
        await until(arrived)

        installation.stop("valkey")
        await ask(app, expected := "while the broker was gone")
        assert await unpublished(system) == 1
        await until(refused)
        installation.start("valkey")
        await until(arrived)
        await until(all_marked)
        assert not await refused()

        installation.stop("postgres")
        installation.start("postgres")
        await ask(app, expected := "after the database came back")
        await until(arrived)
        await until(all_marked)


async def test_app_may_write_the_outbox_but_not_read_it(app: Database) -> None:
    with pytest.raises(ProgrammingError, match="permission denied for table outbox"):
        async with app.unit_of_work() as session:
            await session.execute(select(OutboxMessage.id))
