import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, select, update
from sqlalchemy.exc import OperationalError, ProgrammingError

from loraplex.adapters_registry.uploads import quota
from loraplex.adapters_registry.uploads.models import Blob
from loraplex.engine.protocol.identity import Digest
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.models import BilledStorage, PriceRow, StorageHour, StoredBlob
from loraplex.platform.metering.prices import FREE_PRICE_ID, GIB_MONTH_BYTE_SECONDS
from loraplex.platform.metering.storage import HOUR, bill_next_hour, byte_seconds
from tests.platform.metering.ledgers import MIDNIGHT, Customer, new_customer
from tests.platform.metering.made import made_price

DIGEST = Digest("sha256:" + "a" * 64)
SECONDS = 3600


async def keep(
    system: Database, customer: Customer, start: datetime, end: datetime | None, size_bytes: int
) -> None:
    """Have stored some bytes of their own, from when until when."""
    digest = f"sha256:{start.timestamp()}-{size_bytes}"
    async with system.unit_of_work() as session:
        session.add(
            StoredBlob(
                tenant_id=customer.tenant_id,
                digest=digest,
                stored_from=start,
                stored_until=end,
                size_bytes=size_bytes,
            )
        )


async def begin_billing(system: Database, moment: datetime) -> None:
    async with system.unit_of_work() as session:
        await session.execute(update(BilledStorage).values(billed_until=moment))


async def bill(system: Database, now: datetime) -> int:
    """Bill what has ended; how many hours."""
    hours = 0
    while True:
        async with system.unit_of_work() as session:
            if await bill_next_hour(session, now) is None:
                return hours
        hours += 1


async def billed(system: Database, customer: Customer) -> list[tuple[datetime, int, int, UUID]]:
    mine = select(StorageHour).where(StorageHour.tenant_id == customer.tenant_id)
    async with system.unit_of_work() as session:
        rows = await session.scalars(mine.order_by(StorageHour.hour_start))
        return [(r.hour_start, r.byte_seconds, r.cost_micros, r.price_id) for r in rows]


async def intervals(system: Database, customer: Customer) -> list[StoredBlob]:
    mine = select(StoredBlob).where(StoredBlob.tenant_id == customer.tenant_id)
    async with system.unit_of_work() as session:
        return list(await session.scalars(mine.order_by(StoredBlob.stored_from)))


async def test_bytes_count_once_from_when_they_come_until_they_are_gone(
    database: Database, system_database: Database
) -> None:
    customer = await new_customer(system_database)
    began = datetime.now(UTC)
    for _ in range(2):  # a second version has the same bytes
        async with database.unit_of_work(customer.tenant_id) as session:
            await quota.record(session, customer.tenant_id, {DIGEST: 10})
    (kept,) = await intervals(system_database, customer)
    assert (kept.size_bytes, kept.stored_until) == (10, None)
    assert began <= kept.stored_from <= datetime.now(UTC)
    async with system_database.unit_of_work() as session:
        await session.execute(delete(Blob).where(Blob.tenant_id == customer.tenant_id))
    (kept,) = await intervals(system_database, customer)
    assert kept.stored_until is not None
    async with database.unit_of_work(customer.tenant_id) as session:
        await quota.record(session, customer.tenant_id, {DIGEST: 10})
    before, again = await intervals(system_database, customer)
    assert before.stored_until is not None
    assert before.stored_until <= again.stored_from
    assert again.stored_until is None


async def test_an_interval_begins_when_bytes_are_stored_not_when_the_transaction_began(
    database: Database, system_database: Database
) -> None:
    """One that waited for a deletion began before it, and would overlap with what was deleted."""
    customer = await new_customer(system_database)
    async with database.unit_of_work(customer.tenant_id) as session:
        await quota.record(session, customer.tenant_id, {DIGEST: 10})
    async with database.unit_of_work(customer.tenant_id) as storing:
        await storing.execute(select(1))  # its now() is before the deletion
        async with system_database.unit_of_work() as session:
            await session.execute(delete(Blob).where(Blob.tenant_id == customer.tenant_id))
        await quota.record(storing, customer.tenant_id, {DIGEST: 10})
    before, again = await intervals(system_database, customer)
    assert before.stored_until is not None
    assert before.stored_until <= again.stored_from


async def test_hours_are_billed_at_the_price_of_their_beginning(
    system_database: Database,
) -> None:
    customer = await new_customer(system_database)
    start = datetime(2090, 3, 1, tzinfo=UTC)
    gib = 2**30
    async with system_database.unit_of_work() as session:
        session.add(
            own := PriceRow(
                tenant_id=customer.tenant_id,
                input_micros_per_million=0,
                cached_input_micros_per_million=0,
                output_micros_per_million=0,
                storage_micros_per_gib_month=730_000,
                currency="USD",
                effective_from=start + HOUR + timedelta(minutes=1),
            )
        )
    await keep(system_database, customer, start + timedelta(minutes=30), None, gib)
    await keep(system_database, customer, start + HOUR, start + HOUR + timedelta(seconds=1), 5)
    await begin_billing(system_database, start)
    assert await bill(system_database, start + 3 * HOUR - timedelta(seconds=1)) == 2
    assert await bill(system_database, start + 3 * HOUR) == 1
    assert await bill(system_database, start + 3 * HOUR) == 0
    assert await billed(system_database, customer) == [
        (start, gib * 1800, 0, FREE_PRICE_ID),
        (start + HOUR, gib * 3600 + 5, 0, FREE_PRICE_ID),
        (start + 2 * HOUR, gib * 3600, 1000, own.id),
    ]


@given(byte_seconds=st.integers(0, 2**63), rate=st.integers(0, 10**12))
def test_an_hour_of_storage_is_rounded_up_once(byte_seconds: int, rate: int) -> None:
    price = made_price(storage_rate=rate)
    over = price.storage_cost(byte_seconds) * GIB_MONTH_BYTE_SECONDS - byte_seconds * rate
    assert 0 <= over < GIB_MONTH_BYTE_SECONDS


@pytest.mark.parametrize("seed", range(3))
async def test_any_partition_of_the_time_adds_up_to_the_whole(
    system_database: Database, seed: int
) -> None:
    dice = random.Random(seed)
    customer = await new_customer(system_database)
    expected = 0
    for number in range(20):
        start = MIDNIGHT + timedelta(microseconds=dice.randrange(10 * SECONDS * 10**6))
        end = start + timedelta(microseconds=dice.randrange(5 * SECONDS * 10**6))
        size_bytes = dice.randrange(1, 2**33) + number
        await keep(system_database, customer, start, end, size_bytes)
        expected += size_bytes * (int(end.timestamp()) - int(start.timestamp()))
    cuts = sorted(dice.randrange(1, 16 * SECONDS) for _ in range(12))
    moments = [MIDNIGHT + timedelta(seconds=cut) for cut in (0, *cuts, 16 * SECONDS)]
    found = 0
    async with system_database.unit_of_work() as session:
        for since, until in pairwise(moments):
            found += (await byte_seconds(session, since, until)).get(customer.tenant_id, 0)
    assert found == expected


async def test_an_hour_is_not_billed_while_somebody_stores(
    database: Database, system_database: Database
) -> None:
    customer = await new_customer(system_database)
    start = datetime(2091, 3, 1, tzinfo=UTC)
    await begin_billing(system_database, start)
    async with database.unit_of_work(customer.tenant_id) as storing:
        await quota.record(storing, customer.tenant_id, {DIGEST: 10})
        with pytest.raises(OperationalError, match="lock timeout"):
            await bill(system_database, start + HOUR)
    assert await bill(system_database, start + HOUR) == 1
    assert [row[1] for row in await billed(system_database, customer)] == [10 * SECONDS]


async def test_a_bill_for_storage_stays_as_it_is(
    database: Database, system_database: Database
) -> None:
    for role in (database, system_database):
        for change in (update(StorageHour).values(cost_micros=0), delete(StorageHour)):
            with pytest.raises(ProgrammingError, match="permission denied for table storage_hours"):
                async with role.unit_of_work() as session:
                    await session.execute(change)
