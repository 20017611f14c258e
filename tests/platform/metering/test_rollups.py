import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text

from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.buckets import BucketWidth
from loraplex.platform.metering.models import COUNTED, USAGE_ROLLUPS, LedgerArrival, LedgerEntry
from loraplex.platform.metering.rollups import (
    add_arrivals,
    forget_minutes,
    minutes_kept_from,
    rebuild,
)
from tests.platform.metering.ledgers import (
    ACTOR,
    MIDNIGHT,
    Customer,
    entry,
    new_customer,
    scattered,
    write,
)

EVER = datetime(2000, 1, 1, tzinfo=UTC)


async def add_all(system: Database, minutes_from: datetime = EVER) -> None:
    """Until nothing is left; another test's run may hold the lock meanwhile."""
    while True:
        async with system.unit_of_work() as session:
            await add_arrivals(session, minutes_from)
            if await session.scalar(select(func.count()).select_from(LedgerArrival)) == 0:
                return


async def rollups(system: Database, customer: Customer) -> list[tuple[Any, ...]]:
    table = USAGE_ROLLUPS.c
    mine = select(USAGE_ROLLUPS).where(table.tenant_id == customer.tenant_id)
    async with system.unit_of_work() as session:
        return sorted((tuple(row) for row in await session.execute(mine)), key=repr)


async def sums(system: Database, customer: Customer) -> dict[str, tuple[int, ...]]:
    """By width, and of the ledger."""
    table = USAGE_ROLLUPS.c
    counted = [func.sum(table[name]) for name in ("requests", *COUNTED)]
    by_width = select(table.width, *counted).where(table.tenant_id == customer.tenant_id)
    of_ledger = select(
        func.count(), *(func.sum(getattr(LedgerEntry, name)) for name in COUNTED)
    ).where(LedgerEntry.tenant_id == customer.tenant_id)
    async with system.unit_of_work() as session:
        rows = (await session.execute(by_width.group_by(table.width))).all()
        found = {row[0]: tuple(map(int, row[1:])) for row in rows}
        found["ledger"] = tuple(map(int, (await session.execute(of_ledger)).one()))
    return found


async def test_every_width_sums_up_the_ledger(system_database: Database) -> None:
    customer = await new_customer(system_database, keys=2)
    for seed in range(3):  # buckets that exist already are added to
        async with system_database.unit_of_work() as session:
            await write(session, scattered(customer, 200, seed))
        await add_all(system_database)
        found = await sums(system_database, customer)
        assert found == dict.fromkeys([*BucketWidth, "ledger"], found["ledger"])
        assert found["ledger"][0] == 200 * (seed + 1)


async def test_buckets_are_half_open_in_utc(system_database: Database) -> None:
    customer = await new_customer(system_database)
    microsecond = timedelta(microseconds=1)
    async with system_database.unit_of_work() as session:
        await write(session, [entry(customer, MIDNIGHT - microsecond), entry(customer, MIDNIGHT)])
    await add_all(system_database)
    starts = {(row[1], row[2]) for row in await rollups(system_database, customer)}
    before = MIDNIGHT - microsecond
    assert starts == {
        (width, moment) for width in BucketWidth for moment in (width.begin(before), MIDNIGHT)
    }


async def test_rebuilt_roll_ups_are_the_same(system_database: Database) -> None:
    customer = await new_customer(system_database, keys=2)
    neighbour = await new_customer(system_database)
    async with system_database.unit_of_work() as session:
        await write(session, scattered(customer, 300, seed=7) + scattered(neighbour, 20, seed=8))
    await add_all(system_database)
    before = await rollups(system_database, customer)
    theirs = await rollups(system_database, neighbour)
    async with system_database.unit_of_work() as session:
        mine = {"tenant": customer.tenant_id}
        await session.execute(
            text("UPDATE usage_rollups SET requests = requests + 1 WHERE tenant_id = :tenant"), mine
        )
    assert await rollups(system_database, customer) != before
    await rebuild(system_database, customer.tenant_id, EVER, ACTOR)
    assert await rollups(system_database, customer) == before
    assert await rollups(system_database, neighbour) == theirs


async def test_a_row_that_is_committed_late_is_neither_missed_nor_counted_twice(
    system_database: Database,
) -> None:
    customer = await new_customer(system_database)
    async with system_database.unit_of_work() as late:
        await write(late, [entry(customer, MIDNIGHT)])
        async with system_database.unit_of_work() as session:
            await write(session, [entry(customer, MIDNIGHT + timedelta(hours=1))])
        await add_all(system_database)
        assert (await sums(system_database, customer))["1d"][0] == 1
    for _ in range(2):
        await add_all(system_database)
        found = await sums(system_database, customer)
        assert [found[width][0] for width in ("1m", "1h", "1d", "ledger")] == [2] * 4


@pytest.mark.parametrize("is_rebuilt", [False, True])
async def test_what_is_settled_while_roll_ups_are_made_is_counted_once(
    system_database: Database, is_rebuilt: bool
) -> None:
    customer = await new_customer(system_database)

    async def settle() -> None:
        for number in range(60):
            async with system_database.unit_of_work() as session:
                await write(session, [entry(customer, MIDNIGHT + timedelta(seconds=number))])

    async def make() -> None:
        for _ in range(8):
            await add_all(system_database)
            if is_rebuilt:
                await rebuild(system_database, customer.tenant_id, EVER, ACTOR)

    await asyncio.gather(settle(), make(), make() if not is_rebuilt else asyncio.sleep(0))
    await add_all(system_database)
    found = await sums(system_database, customer)
    assert found == dict.fromkeys([*BucketWidth, "ledger"], found["ledger"])
    assert found["ledger"][0] == 60


async def test_a_run_that_dies_has_done_nothing(system_database: Database) -> None:
    customer = await new_customer(system_database)
    async with system_database.unit_of_work() as session:
        await write(session, scattered(customer, 10, seed=1))
    with pytest.raises(RuntimeError, match="killed"):
        async with system_database.unit_of_work() as session:
            await add_arrivals(session, EVER)
            raise RuntimeError("killed")
    await add_all(system_database)
    assert (await sums(system_database, customer))["1h"][0] == 10


async def test_minutes_are_forgotten_by_whole_days_and_hours_never(
    system_database: Database,
) -> None:
    customer = await new_customer(system_database)
    now = MIDNIGHT + timedelta(days=2, hours=5)
    minutes_from = minutes_kept_from(now, kept_days=1)
    assert minutes_from == MIDNIGHT + timedelta(days=1)
    async with system_database.unit_of_work() as session:
        await write(session, scattered(customer, 100, seed=3))
    await add_all(system_database)
    async with system_database.unit_of_work() as session:
        await forget_minutes(session, minutes_from)
    kept = await rollups(system_database, customer)
    assert {row[1] for row in kept if row[2] < minutes_from} == {"1h", "1d"}
    assert {row[1] for row in kept if row[2] >= minutes_from} == {"1m", "1h", "1d"}
    await rebuild(system_database, customer.tenant_id, minutes_from, ACTOR)
    assert await rollups(system_database, customer) == kept
    async with system_database.unit_of_work() as session:  # as late as it may be
        await write(session, [entry(customer, MIDNIGHT)])
    await add_all(system_database, minutes_from)
    assert len([row for row in await rollups(system_database, customer) if row[1] == "1m"]) == len(
        [row for row in kept if row[1] == "1m"]
    )
