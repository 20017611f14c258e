"""A tenant's members: listed, invited, given another role, removed."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request

from loraplex.api.acting import actor_of
from loraplex.api.authentication import requires
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.pages import PageDep
from loraplex.api.people import link_of
from loraplex.api.services import ServicesDep
from loraplex.api.tenant.invitations import invitation_shown
from loraplex.api.tenant.people_schemas import (
    Member,
    MemberChange,
    MemberList,
    NewInvitation,
    NewMember,
)
from loraplex.api.validation import read_json, validate
from loraplex.platform.people import managing, members
from loraplex.platform.people.views import Member as MemberRow
from loraplex.platform.tenancy.principals import Role, Scope, TenantPrincipal

router = APIRouter(prefix="/api/v1/members", tags=["members"], responses=PROBLEM)

ReaderDep = Annotated[TenantPrincipal, Depends(requires(Scope.MEMBERS_READ))]
WriterDep = Annotated[TenantPrincipal, Depends(requires(Scope.MEMBERS_WRITE))]


@router.get("", operation_id="listMembers")
async def list_members(services: ServicesDep, principal: ReaderDep, wanted: PageDep) -> MemberList:
    """The tenant's members, oldest first."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        page = await members.page_of_members(session, principal.tenant_id, wanted)
    return MemberList(data=[member_shown(one) for one in page.items], next_cursor=page.next_cursor)


@router.post("", operation_id="inviteMember", status_code=201, openapi_extra=json_body(NewMember))
async def invite_member(
    request: Request, services: ServicesDep, principal: WriterDep
) -> NewInvitation:
    """Make a link by which somebody becomes a member. Send it to them: nobody else will."""
    order = validate(NewMember, await read_json(request))
    async with services.database.unit_of_work(principal.tenant_id) as session:
        row, token = await managing.invite(
            session, services.invitations, _by(request, principal), order.email, Role(order.role)
        )
    return NewInvitation(
        **invitation_shown(row).model_dump(), token=token, link=link_of(request, token)
    )


@router.get("/{member}", operation_id="getMember")
async def get_member(member: UUID, services: ServicesDep, principal: ReaderDep) -> Member:
    """One member."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        return member_shown(await members.find_member(session, principal.tenant_id, member))


@router.patch("/{member}", operation_id="changeMember", openapi_extra=json_body(MemberChange))
async def change_member(
    member: UUID, request: Request, services: ServicesDep, principal: WriterDep
) -> Member:
    """Give a member another role, of at most the caller's own rights."""
    change = validate(MemberChange, await read_json(request))
    async with services.database.unit_of_work(principal.tenant_id) as session:
        return member_shown(
            await managing.change_role(session, _by(request, principal), member, Role(change.role))
        )


@router.delete("/{member}", operation_id="removeMember", status_code=204)
async def remove_member(
    member: UUID, request: Request, services: ServicesDep, principal: WriterDep
) -> None:
    """End a membership, with the member's sessions here and the keys they made."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        await managing.remove(session, _by(request, principal), member)


def _by(request: Request, principal: TenantPrincipal) -> managing.Manager:
    return managing.Manager(
        principal.tenant_id, principal.scopes, principal.label, actor_of(request, principal)
    )


def member_shown(row: MemberRow) -> Member:
    return Member.model_validate(
        {
            "id": str(row.id),
            "email": row.email,
            "display_name": row.display_name,
            "role": row.role,
            "source": row.source,
            "is_disabled": row.disabled_at is not None,
            "last_signed_in_at": row.last_signed_in_at,
            "created_at": row.created_at,
        }
    )
