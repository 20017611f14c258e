"""Operators make tenants, look at them, rename, suspend and resume them, and delete them."""

from fastapi import APIRouter, Request
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.api.acting import actor_of
from loraplex.api.admin.errors import system_of
from loraplex.api.admin.schemas import Tenant, TenantList
from loraplex.api.admin.tenant_schemas import (
    Deletion,
    DeletionOrder,
    NewTenant,
    Suspension,
    TenantChange,
    TenantDetails,
)
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.api.validation import read_json, validate
from loraplex.platform.lifecycle import service
from loraplex.platform.tenancy.models import Tenant as TenantRow

router = APIRouter(prefix="/api/v1/admin/tenants", tags=["admin"], responses=PROBLEM)


@router.get("", operation_id="listTenants")
async def list_tenants(services: ServicesDep, _: OperatorDep, wanted: PageDep) -> TenantList:
    """Every tenant, by name."""
    async with system_of(services).unit_of_work() as session:
        page = await services.tenants.page_of_tenants(session, wanted)
    return TenantList(
        data=[
            Tenant(
                id=str(tenant.id),
                name=tenant.name,
                state=tenant.state,
                max_concurrent_requests=tenant.max_concurrent_requests,
                created_at=tenant.created_at,
            )
            for tenant in page.items
        ],
        next_cursor=page.next_cursor,
    )


@router.post("", operation_id="createTenant", status_code=201, openapi_extra=json_body(NewTenant))
async def create_tenant(
    request: Request, services: ServicesDep, operator: OperatorDep
) -> TenantDetails:
    """Make a tenant. It can do nothing before it has a key or a member."""
    order = validate(NewTenant, await read_json(request))
    async with system_of(services).unit_of_work() as session:
        row = await services.tenants.create_tenant(
            session,
            order.name,
            display_name=order.display_name,
            actor=actor_of(request, operator),
        )
        return await _details(session, row)


@router.get("/{tenant}", operation_id="getTenant")
async def get_tenant(tenant: str, services: ServicesDep, _: OperatorDep) -> TenantDetails:
    """One tenant, by name or by id; a deleted one by its id."""
    async with system_of(services).unit_of_work() as session:
        return await _details(session, await service.find_tenant(session, tenant))


@router.patch("/{tenant}", operation_id="changeTenant", openapi_extra=json_body(TenantChange))
async def change_tenant(
    tenant: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> TenantDetails:
    """Give a tenant another name to show. The name it is called by never changes."""
    order = validate(TenantChange, await read_json(request))
    async with system_of(services).unit_of_work() as session:
        row = await service.find_tenant(session, tenant)
        await service.change(
            session, actor_of(request, operator), row, display_name=order.display_name
        )
        return await _details(session, row)


@router.post("/{tenant}/suspend", operation_id="suspendTenant", openapi_extra=json_body(Suspension))
async def suspend_tenant(
    tenant: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> TenantDetails:
    """Refuse a tenant on every gateway within five seconds; calls that run are ended."""
    order = validate(Suspension, await read_json(request))
    async with system_of(services).unit_of_work() as session:
        row = await service.find_tenant(session, tenant)
        await service.suspend(session, actor_of(request, operator), row, order.reason)
        return await _details(session, row)


@router.post("/{tenant}/resume", operation_id="resumeTenant")
async def resume_tenant(
    tenant: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> TenantDetails:
    """Let a suspended tenant in again."""
    async with system_of(services).unit_of_work() as session:
        row = await service.find_tenant(session, tenant)
        await service.resume(session, actor_of(request, operator), row)
        return await _details(session, row)


@router.delete(
    "/{tenant}",
    operation_id="deleteTenant",
    status_code=202,
    openapi_extra=json_body(DeletionOrder),
)
async def delete_tenant(
    tenant: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> TenantDetails:
    """Delete a tenant for good: nobody gets in from now on, and a job removes all it has.

    Its ledger stays, without names. Watch `deletion` at the tenant's id; asking again is harmless.
    """
    order = validate(DeletionOrder, await read_json(request))
    async with system_of(services).unit_of_work() as session:
        row = await service.find_tenant(session, tenant)
        await service.begin_deletion(
            session, actor_of(request, operator), row, confirm=order.confirm
        )
        return await _details(session, row)


async def _details(session: AsyncSession, row: TenantRow) -> TenantDetails:
    going = await service.find_deletion(session, row)
    return TenantDetails.model_validate(
        {
            "id": str(row.id),
            "name": row.name,
            "display_name": row.display_name,
            "state": str(row.state),
            "state_reason": row.state_reason,
            "state_changed_at": row.state_changed_at,
            "max_concurrent_requests": row.max_concurrent_requests,
            "created_at": row.created_at,
            "deletion": None
            if going is None
            else Deletion(
                requested_by=going.requested_by,
                requested_at=going.created_at,
                finished_at=going.finished_at,
                attempts=going.attempts,
                last_error=going.last_error,
            ),
        }
    )
