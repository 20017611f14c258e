"""Who may set which limits, what counts of what was before, and what is told of them."""

from uuid import uuid4

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm.exc import StaleDataError

from loraplex.platform.admission.errors import LimitAboveTenants
from loraplex.platform.admission.limits import change_limits, page_of_limits
from loraplex.platform.admission.models import Limits, Subject
from loraplex.platform.admission.service import Admission
from loraplex.platform.audit.actors import Actor
from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.database.pages import FIRST_PAGE
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.platform.admission.conftest import (
    MICRO_PER_TOKEN,
    MODEL,
    demand,
    in_use,
    new_principal,
    usage,
)

ACTOR = Actor.system("tests")


async def change(
    database: Database,
    principal: TenantPrincipal,
    subject: Subject,
    subject_id: str = "",
    **values: int | None,
) -> None:
    async with database.unit_of_work(principal.tenant_id) as session:
        await change_limits(session, ACTOR, principal.tenant_id, subject, subject_id, values)


async def test_a_key_is_never_allowed_more_than_its_tenant(
    database: Database, system_database: Database
) -> None:
    principal = await new_principal(system_database, tokens_per_minute=1000)
    key = str(principal.key_id)
    with pytest.raises(LimitAboveTenants) as caught:
        await change(database, principal, Subject.KEY, key, tokens_per_minute=1001)
    assert (caught.value.field, caught.value.rule) == ("tokens_per_minute", "at most 1000")
    await change(
        database, principal, Subject.KEY, key, tokens_per_minute=1000, requests_per_minute=10**9
    )


@pytest.mark.parametrize("subject", [Subject.TENANT, Subject.MODEL])
async def test_a_tenants_own_gateway_cannot_touch_the_operators_limits(
    database: Database, principal: TenantPrincipal, subject: Subject
) -> None:
    subject_id = "" if subject is Subject.TENANT else MODEL
    with pytest.raises((ProgrammingError, StaleDataError)):  # may not write it, does not see it
        await change(database, principal, subject, subject_id, requests_per_minute=10**6)


async def test_counters_are_the_functions_alone(
    database: Database, principal: TenantPrincipal
) -> None:
    from loraplex.platform.admission.models import LimitCounter

    with pytest.raises(ProgrammingError, match="permission denied"):
        async with database.unit_of_work(principal.tenant_id) as session:
            await session.execute(update(LimitCounter).values(all_requests=0))


async def test_what_was_spent_before_there_was_a_budget_counts(
    admission: Admission, database: Database, system_database: Database
) -> None:
    principal = await new_principal(system_database)
    key = str(principal.key_id)
    await admission.admit(principal, "before", demand(100, 50, MICRO_PER_TOKEN))
    await admission.settle(principal, usage("before", 100, 50, MICRO_PER_TOKEN))
    await admission.admit(principal, "running", demand(10, 10, MICRO_PER_TOKEN))
    await change(database, principal, Subject.KEY, key, daily_budget_micros=1000)
    used = await in_use(database, principal, Subject.KEY, key)
    assert (used["spent_day_micros"], used["spent_month_micros"]) == (150, 150)
    assert used["reserved_micros"] == 20
    await admission.settle(principal, usage("running", 10, 4, MICRO_PER_TOKEN))
    used = await in_use(database, principal, Subject.KEY, key)
    assert (used["spent_day_micros"], used["reserved_micros"]) == (164, 0)


async def test_a_change_is_audited_with_what_was_before_and_once(
    system_database: Database, principal: TenantPrincipal
) -> None:
    for _ in range(2):
        await change(
            system_database, principal, Subject.TENANT, requests_per_minute=7, max_adapters=None
        )
    async with system_database.unit_of_work() as session:
        mine = select(AuditEvent).where(
            AuditEvent.tenant_id == principal.tenant_id, AuditEvent.action.like("limits.%")
        )
        [event] = (await session.scalars(mine)).all()
    assert (event.action, event.before, event.after) == (
        "limits.changed",
        {"requests_per_minute": None},
        {"requests_per_minute": 7},
    )


async def test_limits_tell_what_binds_and_what_is_used(
    admission: Admission, database: Database, system_database: Database
) -> None:
    principal = await new_principal(
        system_database, requests_per_minute=5, max_concurrent_requests=9
    )
    key = str(principal.key_id)
    await change(
        database, principal, Subject.KEY, key, requests_per_minute=3, output_tokens_per_minute=100
    )
    await admission.admit(principal, "one", demand(3, 20))
    async with database.unit_of_work(principal.tenant_id) as session:
        page = await page_of_limits(session, principal.tenant_id, FIRST_PAGE)
    [keys, tenants] = page.items
    assert (keys.limits.subject, tenants.limits.subject) == ("key", "tenant")
    assert keys.effective["requests_per_minute"] == 3
    assert keys.effective["max_concurrent_requests"] == 9
    assert tenants.effective["output_tokens_per_minute"] is None
    assert (keys.in_use["requests"], keys.in_use["tokens"], keys.in_use["running"]) == (1, 23, 1)


async def test_gateways_of_before_see_the_tenants_limits_where_they_were(
    system_database: Database, principal: TenantPrincipal
) -> None:
    await change(
        system_database,
        principal,
        Subject.TENANT,
        max_concurrent_requests=3,
        max_storage_bytes=None,
    )
    async with system_database.unit_of_work() as session:
        tenant = await session.get_one(Tenant, principal.tenant_id)
        assert tenant.max_concurrent_requests == 3
        assert tenant.max_storage_bytes == 2**63 - 1


async def test_a_neighbours_limits_are_not_to_be_seen(
    database: Database, system_database: Database, principal: TenantPrincipal
) -> None:
    neighbour = await new_principal(system_database)
    async with database.unit_of_work(principal.tenant_id) as session:
        mine = await session.scalars(select(Limits.tenant_id))
        assert set(mine.all()) == {principal.tenant_id}
        assert await session.get(Limits, (neighbour.tenant_id, "tenant", "")) is None


async def test_a_change_of_one_limit_leaves_the_others(
    system_database: Database, principal: TenantPrincipal
) -> None:
    member = str(uuid4())
    await change(system_database, principal, Subject.MEMBER, member, requests_per_minute=2)
    await change(system_database, principal, Subject.MEMBER, member, tokens_per_minute=50)
    async with system_database.unit_of_work() as session:
        row = await session.get_one(Limits, (principal.tenant_id, "member", member))
    assert (row.requests_per_minute, row.tokens_per_minute) == (2, 50)
