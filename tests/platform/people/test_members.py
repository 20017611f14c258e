"""Who may do what to whose membership: every role against every role, and two at once."""

import asyncio
from contextlib import AbstractContextManager, nullcontext
from itertools import product
from typing import Any
from uuid import uuid4

import pytest

from loraplex.platform.database.pages import FIRST_PAGE
from loraplex.platform.database.sessions import Database
from loraplex.platform.people import members
from loraplex.platform.people.errors import (
    AlreadyMember,
    LastOwner,
    MemberNotFound,
    MoreThanYours,
)
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.tenancy.principals import SCOPES_OF, Role, Scope
from tests.platform.people.conftest import Join, Person

MANAGERS = [role for role in Role if Scope.MEMBERS_WRITE in SCOPES_OF[role]]
OWNERS = SCOPES_OF[Role.OWNER]


def refused() -> AbstractContextManager[Any]:
    return pytest.raises(MoreThanYours)


async def roles(database: Database, tenant: Tenant) -> dict[str, str]:
    tenant_id = TenantId(tenant.id)
    async with database.unit_of_work(tenant_id) as session:
        page = await members.page_of_members(session, tenant_id, FIRST_PAGE)
    return {member.email: member.role for member in page.items}


@pytest.mark.parametrize("by", MANAGERS)
async def test_nobody_gives_or_takes_more_than_they_have(
    by: Role, database: Database, tenant: Tenant, join: Join
) -> None:
    await join(tenant, Role.OWNER)
    member = await join(tenant)
    tenant_id, member_id, mine = TenantId(tenant.id), member.member_id, SCOPES_OF[by]
    for old, new in product(Role, Role):
        async with database.unit_of_work(tenant_id) as session:
            await members.change_role(session, tenant_id, member_id, old, OWNERS)
        may_touch = SCOPES_OF[old] <= mine
        with nullcontext() if may_touch and SCOPES_OF[new] <= mine else refused():
            async with database.unit_of_work(tenant_id) as session:
                before = await members.change_role(session, tenant_id, member_id, new, mine)
            assert before is old
        if not may_touch:
            with refused():
                async with database.unit_of_work(tenant_id) as session:
                    await members.remove(session, tenant_id, member_id, mine)
        is_changed = may_touch and SCOPES_OF[new] <= mine
        assert (await roles(database, tenant))[member.email] == (new if is_changed else old)


async def test_a_tenant_keeps_an_owner(database: Database, tenant: Tenant, join: Join) -> None:
    owner = await join(tenant, Role.OWNER)
    tenant_id, member_id = TenantId(tenant.id), owner.member_id
    with pytest.raises(LastOwner):
        async with database.unit_of_work(tenant_id) as session:
            await members.remove(session, tenant_id, member_id, OWNERS)
    with pytest.raises(LastOwner):
        async with database.unit_of_work(tenant_id) as session:
            await members.change_role(session, tenant_id, member_id, Role.ADMIN, OWNERS)
    async with database.unit_of_work(tenant_id) as session:
        await members.change_role(session, tenant_id, member_id, Role.OWNER, OWNERS)


async def test_two_owners_who_remove_each_other_leave_one(
    database: Database, tenant: Tenant, join: Join
) -> None:
    owners = [await join(tenant, Role.OWNER) for _ in range(2)]
    tenant_id = TenantId(tenant.id)
    barrier = asyncio.Barrier(2)

    async def remove(leaving: Person) -> None:
        async with database.unit_of_work(tenant_id) as session:
            await session.connection()
            await barrier.wait()
            member_id = leaving.member_id
            await members.remove(session, tenant_id, member_id, OWNERS)

    answers = await asyncio.gather(*map(remove, owners), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["LastOwner", "NoneType"]
    assert len(await roles(database, tenant)) == 1


async def test_a_neighbours_members_are_not_there(
    database: Database, tenant: Tenant, other_tenant: Tenant, join: Join
) -> None:
    member = await join(tenant)
    other = TenantId(other_tenant.id)
    member_id = member.member_id
    assert await roles(database, other_tenant) == {}
    for attempt in (
        lambda session: members.change_role(session, other, member_id, Role.VIEWER, OWNERS),
        lambda session: members.remove(session, other, member_id, OWNERS),
        lambda session: members.find_member(session, other, member_id),
    ):
        with pytest.raises(MemberNotFound):
            async with database.unit_of_work(other) as session:
                await attempt(session)
    assert (await roles(database, tenant))[member.email] == Role.DEVELOPER


async def test_a_member_is_not_invited_again(
    database: Database, tenant: Tenant, join: Join
) -> None:
    member = await join(tenant)
    with pytest.raises(AlreadyMember):
        async with database.unit_of_work(TenantId(tenant.id)) as session:
            await members.check_newcomer(session, TenantId(tenant.id), member.email)
    async with database.unit_of_work(TenantId(tenant.id)) as session:
        await members.check_newcomer(session, TenantId(tenant.id), f"{uuid4().hex}@example.com")
