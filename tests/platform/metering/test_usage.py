import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import pytest

from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.buckets import BucketWidth
from loraplex.platform.metering.errors import TooManyGroups
from loraplex.platform.metering.models import LedgerEntry, StorageHour
from loraplex.platform.metering.rollups import add_arrivals
from loraplex.platform.metering.usage import (
    COLUMNS_OF,
    SUMS,
    Group,
    Stored,
    UsageFilter,
    UsageQuery,
    Used,
    stored,
    used,
)
from tests.platform.metering.ledgers import (
    MIDNIGHT,
    Customer,
    entry,
    new_customer,
    scattered,
    write,
)

EVER = datetime(2000, 1, 1, tzinfo=UTC)
DAYS = 3
END = MIDNIGHT + timedelta(days=DAYS)
HOUR = timedelta(hours=1)


@pytest.fixture
async def customer(system_database: Database) -> Customer:
    return await new_customer(system_database, keys=2)


def query(
    customer: Customer,
    *groups: Group,
    width: BucketWidth = BucketWidth.DAY,
    start: datetime = MIDNIGHT,
    end: datetime = END,
    minutes_from: datetime = EVER,
    **wanted: Sequence[object],
) -> UsageQuery:
    return UsageQuery(
        start=start,
        end=end,
        width=width,
        wanted=UsageFilter(tenant_ids=[customer.tenant_id], **wanted),  # type: ignore[arg-type]
        minutes_from=minutes_from,
        groups=groups,
    )


async def ask(database: Database, customer: Customer, wanted: UsageQuery) -> list[Used]:
    async with database.unit_of_work(customer.tenant_id) as session:
        return await used(session, wanted)


def total(rows: Sequence[Used | LedgerEntry]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found.update({name: getattr(row, name, 1) for name in SUMS})
    return found


async def half_rolled_up(system: Database, customer: Customer, seed: int) -> list[LedgerEntry]:
    """A ledger of which the roll-ups have one half, and the other has just arrived."""
    rows = scattered(customer, 240, seed, days=DAYS)
    async with system.unit_of_work() as session:
        await write(session, rows[:120])
    async with system.unit_of_work() as session:
        await add_arrivals(session, EVER)
    async with system.unit_of_work() as session:
        await write(session, rows[120:])
    return rows


@pytest.mark.parametrize("seed", range(4))
async def test_any_partition_of_the_time_adds_up_to_the_ledger(
    database: Database, system_database: Database, customer: Customer, seed: int
) -> None:
    rows = await half_rolled_up(system_database, customer, seed)
    await new_customer(system_database)
    dice = random.Random(seed)
    expected = total(rows)
    for width in BucketWidth:
        buckets = int(timedelta(days=DAYS) / width.length)
        cuts = sorted(dice.sample(range(1, buckets), k=min(buckets - 1, 6)))
        moments = [MIDNIGHT + cut * width.length for cut in (0, *cuts, buckets)]
        groups = dice.sample([g for g in Group if g is not Group.TENANT], k=dice.randrange(4))
        found: Counter[str] = Counter()
        for start, end in pairwise(moments):
            part = query(
                customer,
                *groups,
                width=width,
                start=start,
                end=end,
                minutes_from=MIDNIGHT + timedelta(days=dice.randrange(DAYS)),
            )
            answer = await ask(database, customer, part)
            assert all(start <= row.bucket_start < end for row in answer)
            found += total(answer)
        assert found == expected


@pytest.mark.parametrize("group", [g for g in Group if g is not Group.TENANT])
async def test_groups_tell_the_ledgers_rows_apart(
    database: Database, system_database: Database, customer: Customer, group: Group
) -> None:
    rows = await half_rolled_up(system_database, customer, seed=9)
    expected: dict[tuple[object, ...], list[LedgerEntry]] = {}
    for row in rows:
        keys = tuple(getattr(row, name) for name in COLUMNS_OF[group])
        day = BucketWidth.DAY.begin(row.created_at)
        expected.setdefault((day, *keys), []).append(row)
    answer = await ask(database, customer, query(customer, group))
    found = {(row.bucket_start, *row.keys.values()): total([row]) for row in answer}
    assert found == {keys: total(of) for keys, of in expected.items()}


async def test_filters_leave_the_rows_that_have_one_of_the_values_of_each(
    database: Database, system_database: Database, customer: Customer
) -> None:
    rows = await half_rolled_up(system_database, customer, seed=5)
    key_id, adapter_ids = customer.key_ids[0], {r.adapter_id for r in rows if r.adapter_id}
    some = sorted(adapter_ids, key=str)[:2]
    answer = await ask(
        database,
        customer,
        query(customer, api_key_ids=[key_id], adapter_ids=some, adapter_versions=[1]),
    )
    left = [
        row
        for row in rows
        if row.api_key_id == key_id and row.adapter_id in some and row.adapter_version == 1
    ]
    assert left
    assert total(answer) == total(left)
    nobody = query(customer, member_ids=[uuid4()])
    assert await ask(database, customer, nobody) == []
    models = query(customer, base_models=["other"])
    assert total(await ask(database, customer, models)) == total(
        [row for row in rows if row.base_model == "other"]
    )


async def test_a_request_is_seen_as_soon_as_it_is_settled_and_by_its_tenant_alone(
    database: Database, system_database: Database, customer: Customer
) -> None:
    neighbour = await new_customer(system_database)
    async with system_database.unit_of_work() as session:
        await write(session, [entry(customer, MIDNIGHT)])
    (row,) = await ask(database, customer, query(customer))
    assert row == Used(MIDNIGHT, {}, 1, 10, 4, 5, 7)
    # Row security holds, whatever the statement asks.
    assert await ask(database, neighbour, query(customer)) == []


async def test_operators_tell_tenants_apart(system_database: Database, customer: Customer) -> None:
    neighbour = await new_customer(system_database)
    async with system_database.unit_of_work() as session:
        await write(session, [entry(customer, MIDNIGHT), entry(neighbour, MIDNIGHT)])
    both = [customer.tenant_id, neighbour.tenant_id]
    wanted = UsageQuery(
        start=MIDNIGHT,
        end=END,
        width=BucketWidth.DAY,
        wanted=UsageFilter(tenant_ids=both),
        minutes_from=EVER,
        groups=[Group.TENANT],
    )
    async with system_database.unit_of_work() as session:
        rows = await used(session, wanted)
    assert {row.keys["tenant_id"]: row.requests for row in rows} == dict.fromkeys(both, 1)


async def test_an_answer_is_whole_or_refused(
    database: Database,
    system_database: Database,
    customer: Customer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await half_rolled_up(system_database, customer, seed=2)
    rows = await ask(database, customer, query(customer, Group.KEY))
    limit = "loraplex.platform.metering.usage.MAX_RESULTS"
    monkeypatch.setattr(limit, len(rows))
    assert await ask(database, customer, query(customer, Group.KEY)) == rows
    monkeypatch.setattr(limit, len(rows) - 1)
    with pytest.raises(TooManyGroups):
        await ask(database, customer, query(customer, Group.KEY))


async def test_storage_is_told_by_the_hour_and_belongs_to_no_request(
    database: Database, system_database: Database, customer: Customer
) -> None:
    async with system_database.unit_of_work() as session:
        for number in range(30):
            session.add(
                StorageHour(
                    tenant_id=customer.tenant_id,
                    hour_start=MIDNIGHT + number * HOUR,
                    byte_seconds=100,
                    price_id=UUID(int=0),
                    cost_micros=2,
                )
            )
    async with database.unit_of_work(customer.tenant_id) as session:
        days = await stored(session, query(customer))
        hours = await stored(session, query(customer, width=BucketWidth.HOUR))
        by_tenant = await stored(session, query(customer, Group.TENANT, Group.KEY))
        assert await stored(session, query(customer, width=BucketWidth.MINUTE)) == []
        assert await stored(session, query(customer, base_models=["base"])) == []
    second = MIDNIGHT + timedelta(days=1)
    assert days == [Stored(MIDNIGHT, None, 2400, 48), Stored(second, None, 600, 12)]
    assert [row.byte_seconds for row in hours] == [100] * 30
    assert [row.tenant_id for row in by_tenant] == [customer.tenant_id] * 2
