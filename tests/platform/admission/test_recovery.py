"""Bills of gateways that are gone, by what real workers counted."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import update

from loraplex.engine.protocol.generation import RequestOutput
from loraplex.engine.serving.server import WorkerServer
from loraplex.platform.admission.models import Reservation
from loraplex.platform.admission.recovery import ABANDONED_AFTER, Recovery, settle_abandoned
from loraplex.platform.admission.service import LEASE, Admission
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.metering.service import Usage
from loraplex.platform.pools.fleet import WorkerFleet
from loraplex.platform.pools.recounting import Placement
from loraplex.platform.pools.service import WorkerRegistry
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.engine.worker.echo_engine import MAX_TOKENS, EchoEngine
from tests.engine.worker.echo_worker import echo_identity
from tests.engine.worker.wire import a_request
from tests.platform.admission.conftest import Clock, demand, entries, reserved, usage
from tests.platform.pools.conftest import until

LOST_AFTER = timedelta(seconds=60)
PAUSE = LEASE / 3


@pytest.fixture
def base() -> str:
    return f"echo-{uuid4().hex[:8]}"


@pytest.fixture
def engine() -> EchoEngine:
    return EchoEngine(step_seconds=0.002)


@pytest.fixture
def worker(engine: EchoEngine, services: Settings, base: str) -> Iterator[WorkerServer]:
    keys = SecretKeys.from_settings(services).gateway_curve()
    server = WorkerServer(
        engine, echo_identity(f"w-{base}", base), gateway_public_key=keys.public.decode()
    ).start()
    yield server
    assert server.stop(drain_seconds=0)


class Gateway:
    """As much of a gateway as admits and generates; `die` leaves everything as it is."""

    def __init__(
        self,
        database: Database,
        system: Database,
        services: Settings,
        base: str,
        principal: TenantPrincipal,
        clock: Clock,
    ) -> None:
        gateway_id = uuid4().hex
        self.base = base
        self.system = system
        self.principal = principal
        self.clock = clock
        self.admission = Admission(database, gateway_id)
        self.fleet = WorkerFleet(database, SecretKeys.from_settings(services), gateway_id)
        self.recovery = Recovery(database, self.admission, self.fleet, base, lost_after=LOST_AFTER)

    async def admit(self, request_id: str, sequences: int = 1) -> None:
        asked = replace(
            demand(), base_model=self.base, sequences=sequences, choices_per_prompt=sequences
        )
        await self.admission.admit(self.principal, request_id, asked)

    async def begin(self, name: str) -> AsyncGenerator[RequestOutput, None]:
        """A sequence that has its first output, and does not end by itself."""
        request = a_request(name, max_tokens=MAX_TOKENS - 9)
        stream = self.fleet.generate(self.base, request, Placement())
        await anext(stream)
        return stream

    async def run(self, name: str, output_tokens: int) -> None:
        request = a_request(name, max_tokens=output_tokens)
        async with aclosing(self.fleet.generate(self.base, request, Placement())) as outputs:
            async for _ in outputs:
                pass

    async def settle(self, used: Usage) -> None:
        await self.admission.settle(self.principal, used)

    async def look(self, *, after: timedelta = LEASE) -> None:
        """What a gateway's recovery does in the time after a lease, and a pause more."""
        self.clock.go_on(seconds=after.total_seconds() + 1)
        await self.recovery.recover()
        self.clock.go_on(seconds=PAUSE.total_seconds() + 1)
        await self.recovery.recover()

    async def entries(self) -> list[LedgerEntry]:
        return await entries(self.system, self.principal)

    async def only_entry(self) -> LedgerEntry:
        return await only_entry(self.system, self.principal)

    async def reserved(self) -> list[str]:
        return await reserved(self.system, self.principal)


Pair = tuple[Gateway, Gateway]


@pytest.fixture
async def pair(
    moved_database: Database,
    system_database: Database,
    services: Settings,
    base: str,
    worker: WorkerServer,
    principal: TenantPrincipal,
    clock: Clock,
) -> AsyncIterator[Pair]:
    """A gateway that will be gone, and one that lives."""
    async with system_database.unit_of_work() as session:
        await WorkerRegistry(session).register(worker.registration)
    shared = (moved_database, system_database, services, base, principal, clock)
    gateways = Gateway(*shared), Gateway(*shared)
    for gateway in gateways:
        await gateway.fleet.start()
    await until(lambda: all(one.fleet.limits(base) is not None for one in gateways))
    yield gateways
    for gateway in gateways:
        await gateway.fleet.stop()


async def only_entry(system: Database, principal: TenantPrincipal) -> LedgerEntry:
    [entry] = await entries(system, principal)
    assert await reserved(system, principal) == []
    return entry


async def test_a_dead_gateways_request_is_billed_by_the_workers_counts(pair: Pair) -> None:
    dead, alive = pair
    await dead.admit("one", sequences=2)
    await dead.run("one-0", 4)
    await dead.run("one-1", 7)
    await alive.recovery.recover()
    assert await alive.entries() == [], "its lease has not lapsed"
    await alive.look()
    entry = await alive.only_entry()
    assert (entry.prompt_tokens, entry.output_tokens, entry.outcome) == (3, 11, "completed")
    assert (entry.settled_by, entry.api_key_id) == ("recovery", alive.principal.key_id)
    kept = await alive.fleet.recount(alive.base, ["one-0", "one-1"])
    assert kept.ended == {}, "what is billed is acknowledged"


async def test_what_still_runs_is_left_to_whoever_keeps_it_alive(pair: Pair) -> None:
    slow, alive = pair
    await slow.admit("one")
    stream = await slow.begin("one-0")
    await alive.look(after=LEASE + LOST_AFTER)
    assert await alive.reserved() == ["one"]
    await stream.aclose()
    await until_ended(alive, "one-0")
    await alive.look()
    entry = await alive.only_entry()
    assert (entry.outcome, entry.error_code) == ("failed", "gateway_lost")
    assert entry.output_tokens >= 1


async def until_ended(gateway: Gateway, name: str) -> None:
    async with asyncio.timeout(20):
        while not (await gateway.fleet.recount(gateway.base, [name])).ended:
            pass


async def test_what_no_worker_knows_is_lost_after_the_deadline(pair: Pair) -> None:
    dead, alive = pair
    await dead.admit("one")
    await alive.look()
    assert await alive.reserved() == ["one"]
    await alive.look(after=LOST_AFTER)
    entry = await alive.only_entry()
    assert (entry.outcome, entry.prompt_tokens, entry.output_tokens) == ("lost", 0, 0)


async def test_a_gateway_that_was_merely_slow_doubles_nothing(pair: Pair) -> None:
    slow, alive = pair
    await slow.admit("one")
    await slow.run("one-0", 5)
    await alive.look()
    await slow.settle(usage("one", output_tokens=4))
    assert (await alive.only_entry()).output_tokens == 5


async def test_a_gateway_that_settles_between_two_looks_has_the_word(pair: Pair) -> None:
    slow, alive = pair
    await slow.admit("one")
    await slow.run("one-0", 5)
    alive.clock.go_on(seconds=LEASE.total_seconds() + 1)
    assert await alive.recovery.recover() == 0, "the first look takes note alone"
    await slow.settle(usage("one", output_tokens=4))
    alive.clock.go_on(seconds=PAUSE.total_seconds() + 1)
    await alive.recovery.recover()
    entry = await alive.only_entry()
    assert (entry.output_tokens, entry.settled_by) == (4, "gateway")


async def test_many_gateways_share_the_work_and_bill_each_request_once(pair: Pair) -> None:
    dead, alive = pair
    names = [f"r{number}" for number in range(6)]
    for number, name in enumerate(names):
        await dead.admit(name)
        await dead.run(f"{name}-0", number + 1)
    alive.clock.go_on(seconds=LEASE.total_seconds() + 1)
    await asyncio.gather(*(gateway.recovery.recover() for gateway in (dead, alive) * 3))
    alive.clock.go_on(seconds=PAUSE.total_seconds() + 1)
    await asyncio.gather(*(gateway.recovery.recover() for gateway in (dead, alive) * 3))
    rows = await alive.entries()
    assert {row.request_id: row.output_tokens for row in rows} == {
        name: number + 1 for number, name in enumerate(names)
    }


async def test_a_bill_that_cannot_be_written_holds_up_no_other(pair: Pair) -> None:
    dead, alive = pair
    for name in ("unwritable", "one"):
        await dead.admit(name)
        await dead.run(f"{name}-0", 4)
    async with alive.system.unit_of_work() as session:
        mine = update(Reservation).where(
            Reservation.tenant_id == alive.principal.tenant_id,
            Reservation.request_id == "unwritable",
        )
        await session.execute(mine.values(price_id=uuid4()))
    await alive.look()
    [entry] = await alive.entries()
    assert entry.request_id == "one"
    assert await alive.reserved() == ["unwritable"]


async def test_what_no_gateway_comes_back_for_is_lost_in_the_end(
    moved_database: Database, system_database: Database, principal: TenantPrincipal
) -> None:
    admission = Admission(moved_database, uuid4().hex)
    await admission.admit(principal, "one", replace(demand(), base_model=f"gone-{uuid4().hex}"))
    async with system_database.unit_of_work() as session:
        mine = update(Reservation).where(Reservation.tenant_id == principal.tenant_id)
        long_ago = datetime.now(UTC) - ABANDONED_AFTER - timedelta(minutes=1)
        await session.execute(mine.values(expires_at=long_ago))
    await settle_abandoned(system_database)
    assert (await only_entry(system_database, principal)).outcome == "lost"
