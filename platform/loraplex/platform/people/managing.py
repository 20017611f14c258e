"""Somebody manages a tenant's members, and the audit log says so. Commits nothing.

A tenant's own managers and operators both come here; operators hold every scope.
"""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.people import members
from loraplex.platform.people.emails import check_email
from loraplex.platform.people.invitations import Invitations
from loraplex.platform.people.models import Invitation
from loraplex.platform.people.views import Member
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.principals import Role, Scope


@dataclass(frozen=True, slots=True)
class Manager:
    """Who manages which tenant's members, and what they may do at most."""

    tenant_id: TenantId
    scopes: Collection[Scope]
    label: str
    """What the invited are told of who invited them."""
    actor: Actor


async def invite(
    session: AsyncSession, invitations: Invitations, by: Manager, email: str, role: Role
) -> tuple[Invitation, str]:
    """A link to `role` and its token; raises InvalidEmail, MoreThanYours and AlreadyMember."""
    members.check_grant(role, by.scopes)
    email = check_email(email)
    await members.check_newcomer(session, by.tenant_id, email)
    made, token = await invitations.to_tenant(session, by.tenant_id, email, role, by.label)
    await record(
        session,
        by.actor,
        "member.invited",
        tenant_id=by.tenant_id,
        target=Target("invitation", made.id, email),
        after={"role": role.value},
    )
    return made, token


async def change_role(session: AsyncSession, by: Manager, member_id: UUID, role: Role) -> Member:
    """Give a member another role; raises MemberNotFound, MoreThanYours and LastOwner."""
    before = await members.change_role(session, by.tenant_id, member_id, role, by.scopes)
    member = await members.find_member(session, by.tenant_id, member_id)
    await record(
        session,
        by.actor,
        "member.changed",
        tenant_id=by.tenant_id,
        target=Target("member", member_id, member.email),
        before={"role": before.value},
        after={"role": role.value},
    )
    return member


async def remove(session: AsyncSession, by: Manager, member_id: UUID) -> None:
    """End a membership; raises MemberNotFound, MoreThanYours and LastOwner."""
    member = await members.find_member(session, by.tenant_id, member_id)
    before = await members.remove(session, by.tenant_id, member_id, by.scopes)
    await record(
        session,
        by.actor,
        "member.removed",
        tenant_id=by.tenant_id,
        target=Target("member", member_id, member.email),
        before={"role": before.value},
    )
