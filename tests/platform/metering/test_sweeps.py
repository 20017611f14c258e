from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, update

from loraplex.platform.database.sessions import Database
from loraplex.platform.jobs import JobContext
from loraplex.platform.metering.models import USAGE_ROLLUPS, BilledStorage, StorageHour
from loraplex.platform.metering.storage import HOUR
from loraplex.platform.metering.sweeps import bill_storage, forget_usage_minutes, roll_up_usage
from loraplex.platform.settings import Settings
from tests.platform.metering.ledgers import Customer, entry, new_customer, write
from tests.platform.metering.test_storage import keep


@pytest.fixture
def context(services: Settings) -> Iterator[JobContext]:
    context = JobContext.open(services.model_copy(update={"usage_minutes_kept_days": 2}))
    yield context
    context.close()


def made(context: JobContext, *ages: timedelta) -> Customer:
    """A tenant with a request of each age."""

    async def make(system: Database) -> Customer:
        customer = await new_customer(system)
        now = datetime.now(UTC)
        async with system.unit_of_work() as session:
            await write(session, [entry(customer, now - age) for age in ages])
        return customer

    return context.run(make, context.database)


def counted(context: JobContext, customer: Customer) -> dict[str, int]:
    table = USAGE_ROLLUPS.c

    async def count(system: Database) -> dict[str, int]:
        mine = select(table.width, func.sum(table.requests)).where(
            table.tenant_id == customer.tenant_id
        )
        async with system.unit_of_work() as session:
            rows = await session.execute(mine.group_by(table.width))
            return {width: int(requests) for width, requests in rows}

    return context.run(count, context.database)


def test_what_is_settled_is_rolled_up_and_its_minutes_go_first(context: JobContext) -> None:
    customer = made(context, timedelta(), timedelta(days=1), timedelta(days=4))
    context.run(roll_up_usage, context)
    assert counted(context, customer) == {"1m": 2, "1h": 3, "1d": 3}
    fewer = JobContext(
        context.settings.model_copy(update={"usage_minutes_kept_days": 0}),
        context.database,
        context.runner,
    )
    context.run(forget_usage_minutes, fewer)
    left = counted(context, customer)
    assert (left.get("1m", 0) <= 1, left["1h"], left["1d"]) == (True, 3, 3)


def test_hours_that_have_ended_are_billed_once(context: JobContext) -> None:
    customer = made(context)
    now = datetime.now(UTC)
    this_hour = now.replace(minute=0, second=0, microsecond=0)

    async def prepare(system: Database) -> None:
        await keep(system, customer, this_hour - 3 * HOUR, None, 100)
        async with system.unit_of_work() as session:
            await session.execute(update(BilledStorage).values(billed_until=this_hour - 2 * HOUR))

    async def billed(system: Database) -> list[datetime]:
        mine = select(StorageHour.hour_start).where(StorageHour.tenant_id == customer.tenant_id)
        async with system.unit_of_work() as session:
            return sorted(await session.scalars(mine))

    context.run(prepare, context.database)
    for _ in range(2):
        context.run(bill_storage, context)
    assert context.run(billed, context.database)[:2] == [this_hour - 2 * HOUR, this_hour - HOUR]
