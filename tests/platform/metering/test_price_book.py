import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import IntegrityError, ProgrammingError

from loraplex.platform.database.changes import MAX_CACHE_SECONDS
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.models import PriceRow
from loraplex.platform.metering.price_book import PriceBook, price_by_id
from loraplex.platform.tenancy.identity import TenantId
from tests.platform.metering.made import FREE
from tests.platform.metering.test_service import new_tenant

SOON = timedelta(minutes=5)


def row(rate: int, *, tenant_id: TenantId | None, base: str, after: timedelta = SOON) -> PriceRow:
    return PriceRow(
        tenant_id=tenant_id,
        base_model=base,
        input_micros_per_million=rate,
        cached_input_micros_per_million=rate,
        output_micros_per_million=rate,
        currency="USD",
        effective_from=datetime.now(UTC) + after,
    )


async def test_everything_is_free_from_the_start(
    database: Database, system_database: Database
) -> None:
    tenant_id, _ = await new_tenant(system_database)
    assert await PriceBook(database).current(tenant_id, f"base-{uuid4().hex}") == FREE


async def test_a_price_holds_from_its_moment_on_for_those_it_is_for(
    database: Database, system_database: Database
) -> None:
    mine, _ = await new_tenant(system_database)
    theirs, _ = await new_tenant(system_database)
    base = f"base-{uuid4().hex}"
    async with system_database.unit_of_work() as session:
        session.add(row(7, tenant_id=None, base=base))
        session.add(own := row(3, tenant_id=mine, base=base))
    book, at = PriceBook(database), own.effective_from
    before = await book.current(mine, base, now=at - timedelta(microseconds=1))
    assert before.input_micros_per_million in (0, 7)
    assert (await book.current(mine, base, now=at)).id == own.id
    assert (await book.current(theirs, base, now=at)).input_micros_per_million == 7
    async with system_database.unit_of_work() as session:
        assert (await price_by_id(session, own.id)).input_micros_per_million == 3


async def test_those_who_ask_at_once_ask_postgres_once(
    database: Database, system_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant_id, _ = await new_tenant(system_database)
    begun, unit_of_work = [], database.unit_of_work

    def counting(of: TenantId | None = None) -> object:
        begun.append(of)
        return unit_of_work(of)

    monkeypatch.setattr(database, "unit_of_work", counting)
    book, base = PriceBook(database), f"base-{uuid4().hex}"
    assert await asyncio.gather(*(book.current(tenant_id, base) for _ in range(5))) == [FREE] * 5
    assert begun == [tenant_id]


async def test_a_price_that_is_new_is_seen_within_seconds_or_at_once_when_told(
    database: Database, system_database: Database
) -> None:
    tenant_id, _ = await new_tenant(system_database)
    base, seconds = f"base-{uuid4().hex}", [0.0]
    book = PriceBook(database, monotonic=lambda: seconds[0])
    later = datetime.now(UTC) + 2 * SOON
    assert await book.current(tenant_id, base, now=later) == FREE

    async def add(rate: int, after: timedelta) -> None:
        async with system_database.unit_of_work() as session:
            session.add(row(rate, tenant_id=tenant_id, base=base, after=after))

    await add(5, SOON / 2)
    assert await book.current(tenant_id, base, now=later) == FREE
    seconds[0] += MAX_CACHE_SECONDS
    assert (await book.current(tenant_id, base, now=later)).input_micros_per_million == 5
    await add(6, SOON)
    book.forget()
    assert (await book.current(tenant_id, base, now=later)).input_micros_per_million == 6


async def test_app_sees_everybodys_prices_and_its_tenants_own(
    database: Database, system_database: Database
) -> None:
    mine, _ = await new_tenant(system_database)
    theirs, _ = await new_tenant(system_database)
    base = f"base-{uuid4().hex}"
    async with system_database.unit_of_work() as session:
        session.add_all([row(1, tenant_id=owner, base=base) for owner in (None, mine, theirs)])
    async with database.unit_of_work(mine) as session:
        seen = await session.scalars(select(PriceRow.tenant_id).where(PriceRow.base_model == base))
    assert set(seen) == {None, mine}


async def test_a_price_cannot_be_changed_taken_back_or_dated_back(
    database: Database, system_database: Database
) -> None:
    for role in (database, system_database):
        for change in (update(PriceRow).values(currency="EUR"), delete(PriceRow)):
            with pytest.raises(ProgrammingError, match="permission denied for table prices"):
                async with role.unit_of_work() as session:
                    await session.execute(change)
    with pytest.raises(IntegrityError, match="prices_effective_from_check"):
        async with system_database.unit_of_work() as session:
            session.add(row(1, tenant_id=None, base="base", after=-SOON))
    async with system_database.unit_of_work() as session:
        earliest = await session.scalar(select(func.min(PriceRow.effective_from)))
    assert earliest == FREE.effective_from


async def test_of_two_prices_from_one_moment_the_second_is_refused(
    system_database: Database,
) -> None:
    moment, base = datetime.now(UTC) + SOON, f"base-{uuid4().hex}"
    with pytest.raises(IntegrityError, match="prices_moment_idx"):
        async with system_database.unit_of_work() as session:
            for rate in (1, 2):
                price = row(rate, tenant_id=None, base=base)
                price.effective_from = moment
                session.add(price)
