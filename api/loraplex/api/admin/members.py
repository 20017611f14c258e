"""Operators manage a tenant's members, as an owner of it would: its first one above all."""

from uuid import UUID

from fastapi import APIRouter, Request

from loraplex.api.acting import actor_of
from loraplex.api.admin.errors import system_of
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.pages import PageDep
from loraplex.api.people import link_of
from loraplex.api.services import Services, ServicesDep
from loraplex.api.tenant.invitations import invitation_shown
from loraplex.api.tenant.members import member_shown
from loraplex.api.tenant.people_schemas import (
    Member,
    MemberChange,
    MemberList,
    NewInvitation,
    NewMember,
)
from loraplex.api.validation import read_json, validate
from loraplex.platform.lifecycle import service
from loraplex.platform.people import managing, members
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.principals import SCOPES_OF, OperatorPrincipal, Role

router = APIRouter(
    prefix="/api/v1/admin/tenants/{tenant}/members", tags=["admin"], responses=PROBLEM
)


@router.get("", operation_id="listTenantsMembers")
async def list_tenants_members(
    tenant: str, services: ServicesDep, _: OperatorDep, wanted: PageDep
) -> MemberList:
    """A tenant's members, oldest first."""
    tenant_id = await _tenant_id(services, tenant)
    async with system_of(services).unit_of_work(tenant_id) as session:
        page = await members.page_of_members(session, tenant_id, wanted)
    return MemberList(data=[member_shown(one) for one in page.items], next_cursor=page.next_cursor)


@router.post(
    "",
    operation_id="inviteTenantsMember",
    status_code=201,
    openapi_extra=json_body(NewMember),
)
async def invite_tenants_member(
    tenant: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> NewInvitation:
    """Make a link by which somebody becomes a member of a tenant."""
    order = validate(NewMember, await read_json(request))
    tenant_id = await _tenant_id(services, tenant)
    async with system_of(services).unit_of_work(tenant_id) as session:
        by = _by(request, operator, tenant_id)
        row, token = await managing.invite(
            session, services.invitations, by, order.email, Role(order.role)
        )
    return NewInvitation(
        **invitation_shown(row).model_dump(), token=token, link=link_of(request, token)
    )


@router.patch(
    "/{member}", operation_id="changeTenantsMember", openapi_extra=json_body(MemberChange)
)
async def change_tenants_member(
    tenant: str, member: UUID, request: Request, services: ServicesDep, operator: OperatorDep
) -> Member:
    """Give a tenant's member another role."""
    change = validate(MemberChange, await read_json(request))
    tenant_id = await _tenant_id(services, tenant)
    async with system_of(services).unit_of_work(tenant_id) as session:
        by = _by(request, operator, tenant_id)
        return member_shown(await managing.change_role(session, by, member, Role(change.role)))


@router.delete("/{member}", operation_id="removeTenantsMember", status_code=204)
async def remove_tenants_member(
    tenant: str, member: UUID, request: Request, services: ServicesDep, operator: OperatorDep
) -> None:
    """End a membership."""
    tenant_id = await _tenant_id(services, tenant)
    async with system_of(services).unit_of_work(tenant_id) as session:
        await managing.remove(session, _by(request, operator, tenant_id), member)


async def _tenant_id(services: Services, name_or_id: str) -> TenantId:
    async with system_of(services).unit_of_work() as session:
        return TenantId((await service.find_tenant(session, name_or_id)).id)


def _by(request: Request, operator: OperatorPrincipal, tenant_id: TenantId) -> managing.Manager:
    owners = SCOPES_OF[Role.OWNER]
    return managing.Manager(tenant_id, owners, operator.name, actor_of(request, operator))
