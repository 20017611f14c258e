"""Tenants with limits, and a clock that tests move: admission goes by the database's."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy import event, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.admission.demand import Demand
from loraplex.platform.admission.models import Limits, Reservation, Subject
from loraplex.platform.admission.service import Admission
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.metering.prices import Price
from loraplex.platform.metering.service import Usage
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.platform.metering.made import FREE, made_price
from tests.platform.tenancy.signed_in import through_key

MODEL = "support"
MICRO_PER_TOKEN = made_price(1_000_000, 500_000, 1_000_000)
"""One micro-unit a token, a cached one half."""


async def new_principal(system: Database, **limits: int | None) -> TenantPrincipal:
    """A tenant with these limits, through a key of no member."""
    administration = TenantAdministration(SecretKeys(["k" * 32]))
    async with system.unit_of_work() as session:
        tenant = await administration.create_tenant(session, f"t-{uuid4().hex}")
        key, _ = await administration.create_key(session, tenant, "ci")
        if limits:
            await set_limits(session, tenant.id, Subject.TENANT, "", **limits)
    return through_key(tenant, key)


async def set_limits(
    session: AsyncSession, tenant_id: UUID, subject: Subject, subject_id: str, **limits: int | None
) -> None:
    mine = (Limits.tenant_id == tenant_id, Limits.subject == subject)
    found = await session.scalars(select(Limits).where(*mine, Limits.subject_id == subject_id))
    row = found.one_or_none()
    if row is None:
        row = Limits(tenant_id=tenant_id, subject=subject, subject_id=subject_id)
        session.add(row)
    for name, value in limits.items():
        setattr(row, name, value)
    await session.flush()


def demand(prompt_tokens: int = 3, max_output_tokens: int = 5, price: Price = FREE) -> Demand:
    return Demand(
        model=f"{MODEL}:v2",
        model_name=MODEL,
        base_model="base",
        price=price,
        prompt_tokens=prompt_tokens,
        max_output_tokens=max_output_tokens,
    )


def usage(
    request_id: str, prompt_tokens: int = 3, output_tokens: int = 5, price: Price = FREE
) -> Usage:
    return Usage(
        request_id=request_id,
        model=f"{MODEL}:v2",
        price=price,
        adapter_digest=None,
        prompt_tokens=prompt_tokens,
        cached_tokens=0,
        output_tokens=output_tokens,
        outcome="completed",
        admitted_at=datetime.now(UTC),
    )


async def reserved(system: Database, principal: TenantPrincipal) -> list[str]:
    async with system.unit_of_work() as session:
        mine = select(Reservation.request_id).where(Reservation.tenant_id == principal.tenant_id)
        return sorted((await session.scalars(mine)).all())


async def entries(system: Database, principal: TenantPrincipal) -> list[LedgerEntry]:
    async with system.unit_of_work() as session:
        mine = select(LedgerEntry).where(LedgerEntry.tenant_id == principal.tenant_id)
        return list((await session.scalars(mine)).all())


async def in_use(
    database: Database, principal: TenantPrincipal, subject: Subject = Subject.TENANT, of: str = ""
) -> dict[str, Any]:
    """What is used of one subject's limits now."""
    async with database.unit_of_work(principal.tenant_id) as session:
        rows = await session.execute(
            select("*").select_from(
                func.gateway.limits_in_use(
                    principal.tenant_id, [subject.value], [of], func.gateway.clock()
                )
            )
        )
        return dict(rows.mappings().one())


class Clock:
    """Moves the time by which one Database's connections admit and settle; it never sleeps."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def go_on(self, **by: float) -> None:
        self.offset += timedelta(**by)

    def watch(self, database: Database) -> None:
        @event.listens_for(database.engine.sync_engine, "checkout")
        def _set(connection: Any, *_: object) -> None:
            cursor = connection.cursor()
            offset = f"{self.offset.total_seconds()} seconds"
            cursor.execute(f"SET loraplex.clock_offset = '{offset}'")
            cursor.close()
            connection.commit()

        borrow = database.statements._borrow

        async def borrow_moved() -> psycopg.AsyncConnection:
            connection = await borrow()
            offset = f"{self.offset.total_seconds()} seconds"
            await connection.execute(f"SET loraplex.clock_offset = '{offset}'".encode())
            return connection

        database.statements._borrow = borrow_moved  # type: ignore[method-assign]

    def to_fraction(self, of_second: float) -> None:
        """Go on to a moment so far within a second, so that a test's steps share it."""
        now = datetime.now(UTC) + self.offset
        self.go_on(seconds=1 + of_second - now.microsecond / 1e6)

    def to(self, moment: Callable[[datetime], datetime]) -> None:
        """Go to what `moment` makes of the time that it is."""
        now = datetime.now(UTC) + self.offset
        self.offset += moment(now) - now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def moved_database(services: Settings, clock: Clock) -> AsyncIterator[Database]:
    """A gateway's database, whose clock is `clock`."""
    assert services.database_url is not None
    database = Database(services.database_url.get_secret_value())
    clock.watch(database)
    yield database
    await database.dispose()


@pytest.fixture
def admission(moved_database: Database) -> Admission:
    return Admission(moved_database, uuid4().hex)


@pytest.fixture
async def principal(system_database: Database) -> TenantPrincipal:
    return await new_principal(system_database, max_concurrent_requests=8)
