"""Budgets are hard, in integers, by the database's day and month in UTC; nothing resets them."""

import asyncio
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import select

from loraplex.platform.admission.errors import (
    BudgetExhausted,
    BudgetHeld,
    LimitRefusal,
    RequestExceedsLimit,
)
from loraplex.platform.admission.models import Subject
from loraplex.platform.admission.service import Admission
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.principals import TenantPrincipal
from loraplex.platform.webhooks.models import WebhookEvent
from tests.platform.admission.conftest import (
    MICRO_PER_TOKEN,
    Clock,
    demand,
    in_use,
    new_principal,
    reserved,
    set_limits,
    usage,
)

CALL = demand(10, 20, MICRO_PER_TOKEN)
"""Holds 30 micro-units."""


async def run(admission: Admission, principal: TenantPrincipal, name: str, output: int) -> None:
    await admission.admit(principal, name, CALL)
    await admission.settle(principal, usage(name, 10, output, MICRO_PER_TOKEN))


async def events(system: Database, principal: TenantPrincipal) -> list[tuple[str, Any]]:
    async with system.unit_of_work() as session:
        mine = select(WebhookEvent).where(
            WebhookEvent.tenant_id == principal.tenant_id, WebhookEvent.type.like("budget.%")
        )
        rows = await session.scalars(mine.order_by(WebhookEvent.created_at))
        return [(row.type, row.data["period"]) for row in rows]


async def test_of_fifty_at_once_exactly_as_many_pass_as_the_budget_pays(
    admission: Admission, system_database: Database
) -> None:
    principal = await new_principal(system_database, monthly_budget_micros=90)
    refusals: list[LimitRefusal] = []

    async def attempt(number: int) -> bool:
        try:
            await admission.admit(principal, str(number), CALL)
        except LimitRefusal as refusal:
            refusals.append(refusal)
            return False
        return True

    passed = await asyncio.gather(*(attempt(number) for number in range(50)))
    assert sum(passed) == 3
    assert len(await reserved(system_database, principal)) == 3
    assert {type(refusal) for refusal in refusals} == {BudgetHeld}
    assert all(refusal.retry_after_seconds == 1 for refusal in refusals)


async def test_what_is_not_spent_is_there_again_and_what_is_spent_is_gone(
    admission: Admission, moved_database: Database, system_database: Database
) -> None:
    principal = await new_principal(system_database, daily_budget_micros=60)
    await run(admission, principal, "short", 5)
    await run(admission, principal, "cancelled-before-it-ran", 0)
    used = await in_use(moved_database, principal)
    assert (used["spent_day_micros"], used["reserved_micros"]) == (25, 0)
    await run(admission, principal, "fits", 20)
    with pytest.raises(BudgetExhausted) as caught:
        await admission.admit(principal, "gone", CALL)
    assert (caught.value.limit, caught.value.used) == (60, 55)


async def test_a_call_that_the_whole_budget_does_not_pay_is_told_so(
    admission: Admission, system_database: Database
) -> None:
    principal = await new_principal(system_database, daily_budget_micros=29)
    with pytest.raises(RequestExceedsLimit) as caught:
        await admission.admit(principal, "one", CALL)
    assert (caught.value.dimension, caught.value.used) == ("daily_budget_micros", 30)


async def test_a_day_and_a_month_begin_by_the_clock_alone(
    admission: Admission, moved_database: Database, system_database: Database, clock: Clock
) -> None:
    principal = await new_principal(
        system_database, daily_budget_micros=30, monthly_budget_micros=60
    )
    clock.to(lambda now: datetime(now.year, now.month, 10, 23, 59, 30, tzinfo=now.tzinfo))
    await run(admission, principal, "first-day", 20)
    with pytest.raises(BudgetExhausted):
        await admission.admit(principal, "same-day", CALL)
    clock.go_on(seconds=31)
    await run(admission, principal, "second-day", 20)
    used = await in_use(moved_database, principal)
    assert (used["spent_day_micros"], used["spent_month_micros"]) == (30, 60)
    clock.go_on(days=1)
    with pytest.raises(BudgetExhausted) as caught:
        await admission.admit(principal, "third-day", CALL)
    assert caught.value.dimension == "monthly_budget_micros"
    clock.go_on(days=31)
    assert (await in_use(moved_database, principal))["spent_month_micros"] == 0
    await run(admission, principal, "next-month", 20)


async def test_what_ends_after_midnight_is_spent_on_the_day_that_it_ends(
    admission: Admission, moved_database: Database, system_database: Database, clock: Clock
) -> None:
    principal = await new_principal(system_database, daily_budget_micros=100)
    clock.to(lambda now: datetime(now.year, now.month, 10, 23, 59, 59, tzinfo=now.tzinfo))
    await admission.admit(principal, "long", CALL)
    clock.go_on(seconds=10)
    assert (await in_use(moved_database, principal))["reserved_micros"] == 30
    await admission.settle(principal, usage("long", 10, 7, MICRO_PER_TOKEN))
    used = await in_use(moved_database, principal)
    assert (used["spent_day_micros"], used["reserved_micros"]) == (17, 0)


async def test_a_tenant_is_told_once_a_period_and_of_each_mark(
    admission: Admission, system_database: Database, clock: Clock
) -> None:
    principal = await new_principal(
        system_database, daily_budget_micros=100, soft_budget_percent=50
    )
    await run(admission, principal, "one", 20)
    assert await events(system_database, principal) == []
    await run(admission, principal, "two", 20)
    await run(admission, principal, "three", 20)
    assert await events(system_database, principal) == [("budget.soft_exceeded", "day")]
    for attempt in range(2):
        with pytest.raises(BudgetExhausted):
            await admission.admit(principal, f"refused-{attempt}", CALL)
    told = [("budget.soft_exceeded", "day"), ("budget.exhausted", "day")]
    assert await events(system_database, principal) == told
    clock.go_on(days=1)
    await run(admission, principal, "next-day", 20)
    await run(admission, principal, "next-day-too", 20)
    assert await events(system_database, principal) == [*told, ("budget.soft_exceeded", "day")]


async def test_a_keys_budget_is_its_own(admission: Admission, system_database: Database) -> None:
    principal = await new_principal(system_database, daily_budget_micros=1000)
    async with system_database.unit_of_work() as session:
        await set_limits(
            session, principal.tenant_id, Subject.KEY, str(principal.key_id), daily_budget_micros=30
        )
    await admission.admit(principal, "one", CALL)
    with pytest.raises(BudgetHeld) as caught:
        await admission.admit(principal, "two", CALL)
    assert caught.value.subject == "key"
