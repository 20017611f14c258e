"""A tenant's members: listed, given another role, removed. Commits nothing.

Nobody gives or takes a role that may do more than they may, and a tenant keeps an owner.
"""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.people.emails import normal_email
from loraplex.platform.people.errors import (
    AlreadyMember,
    LastOwner,
    MemberNotFound,
    MoreThanYours,
)
from loraplex.platform.people.models import Membership
from loraplex.platform.people.views import Member
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.principals import SCOPES_OF, Role, Scope

OLDEST_FIRST = Keyset("members", Member.created_at, Member.id)


async def page_of_members(
    session: AsyncSession, tenant_id: TenantId, wanted: PageRequest
) -> Page[Member]:
    """The tenant's members, oldest first; raises InvalidCursor. The session is the tenant's."""
    mine = select(Member).where(Member.tenant_id == tenant_id)
    page = await OLDEST_FIRST.page(session, mine, wanted)
    return page.map(lambda row: row[0])


async def find_member(session: AsyncSession, tenant_id: TenantId, member_id: UUID) -> Member:
    """One member; raises MemberNotFound. The session is the tenant's."""
    mine = select(Member).where(Member.tenant_id == tenant_id, Member.id == member_id)
    member = await session.scalar(mine.execution_options(populate_existing=True))
    if member is None:
        raise MemberNotFound(member_id)
    return member


async def find_by_email(session: AsyncSession, tenant_id: TenantId, email: str) -> Member:
    """One member; raises MemberNotFound. The session is the tenant's."""
    mine = select(Member).where(Member.tenant_id == tenant_id, Member.email == normal_email(email))
    member = await session.scalar(mine)
    if member is None:
        raise MemberNotFound(email[:64])
    return member


def check_grant(role: Role, scopes: Collection[Scope]) -> None:
    """Raise MoreThanYours for a role that may do what `scopes` do not hold."""
    if not SCOPES_OF[role] <= set(scopes):
        raise MoreThanYours(role)


async def check_newcomer(session: AsyncSession, tenant_id: TenantId, email: str) -> None:
    """Raise AlreadyMember when somebody of this address is one. The session is the tenant's."""
    mine = select(Member.id).where(Member.tenant_id == tenant_id, Member.email == email)
    if await session.scalar(mine) is not None:
        raise AlreadyMember(email)


async def change_role(
    session: AsyncSession,
    tenant_id: TenantId,
    member_id: UUID,
    role: Role,
    scopes: Collection[Scope],
) -> Role:
    """Give a member another role, on behalf of somebody who holds `scopes`; the role before.

    Raises MemberNotFound, MoreThanYours and LastOwner.
    """
    before = await _held_role(session, tenant_id, member_id)
    check_grant(before, scopes)
    check_grant(role, scopes)
    if before is Role.OWNER and role is not Role.OWNER:
        await _keep_an_owner(session, tenant_id, member_id)
    await session.execute(
        update(Membership)
        .where(Membership.tenant_id == tenant_id, Membership.id == member_id)
        .values(role=role.value)
    )
    return before


async def remove(
    session: AsyncSession, tenant_id: TenantId, member_id: UUID, scopes: Collection[Scope]
) -> Role:
    """End a membership, and with it the sessions there and the keys it made; the role it had.

    Raises MemberNotFound, MoreThanYours and LastOwner.
    """
    before = await _held_role(session, tenant_id, member_id)
    check_grant(before, scopes)
    if before is Role.OWNER:
        await _keep_an_owner(session, tenant_id, member_id)
    await session.execute(
        update(Membership)
        .where(Membership.tenant_id == tenant_id, Membership.id == member_id)
        .values(ended_at=func.now())
    )
    return before


async def _held_role(session: AsyncSession, tenant_id: TenantId, member_id: UUID) -> Role:
    """The live member's role, which nobody changes until this transaction ends.

    Owners' rows are locked with it, in one order: two owners who remove each other meet here.
    """
    locked = (
        select(Membership.id, Membership.role)
        .where(
            Membership.tenant_id == tenant_id,
            Membership.ended_at.is_(None),
            (Membership.id == member_id) | (Membership.role == Role.OWNER.value),
        )
        .order_by(Membership.id)
        .with_for_update()
    )
    roles = {row.id: row.role for row in await session.execute(locked)}
    if member_id not in roles:
        raise MemberNotFound(member_id)
    return Role(roles[member_id])


async def _keep_an_owner(session: AsyncSession, tenant_id: TenantId, leaving: UUID) -> None:
    others = select(Membership.id).where(
        Membership.tenant_id == tenant_id,
        Membership.ended_at.is_(None),
        Membership.role == Role.OWNER.value,
        Membership.id != leaving,
    )
    if await session.scalar(others.limit(1)) is None:
        raise LastOwner
