"""Operators set what a tenant and its models may use, keep and spend."""

from collections.abc import Mapping

from fastapi import APIRouter, Request

from loraplex.api.acting import actor_of
from loraplex.api.admin.errors import system_of
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.limit_schemas import (
    Budgets,
    LimitsList,
    SubjectLimits,
    TenantLimits,
    budgets,
    limits_used,
    subject_limits,
    tenant_limits,
)
from loraplex.api.pages import PageDep
from loraplex.api.services import Services, ServicesDep
from loraplex.api.validation import read_json, validate
from loraplex.platform.admission.limits import change_limits, limits_of, page_of_limits
from loraplex.platform.admission.models import Limits, Subject
from loraplex.platform.audit.actors import Actor
from loraplex.platform.tenancy.identity import TenantId

router = APIRouter(prefix="/api/v1/admin/tenants/{tenant}", tags=["admin"], responses=PROBLEM)


@router.get("/limits", operation_id="getTenantLimits")
async def get_tenant_limits(tenant: str, services: ServicesDep, _: OperatorDep) -> TenantLimits:
    """What the tenant may use and keep."""
    return tenant_limits(await _row(services, tenant))


@router.put("/limits", operation_id="putTenantLimits", openapi_extra=json_body(TenantLimits))
async def put_tenant_limits(
    tenant: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> TenantLimits:
    """Set what the tenant may use and keep, all of it: what is absent is without a limit."""
    order = validate(TenantLimits, await read_json(request))
    actor = actor_of(request, operator)
    return tenant_limits(await _change(services, actor, tenant, order.model_dump()))


@router.get("/budgets", operation_id="getTenantBudgets")
async def get_tenant_budgets(tenant: str, services: ServicesDep, _: OperatorDep) -> Budgets:
    """What the tenant may spend."""
    return budgets(await _row(services, tenant))


@router.put("/budgets", operation_id="putTenantBudgets", openapi_extra=json_body(Budgets))
async def put_tenant_budgets(
    tenant: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> Budgets:
    """Set what the tenant may spend, all of it: what is absent is without a limit."""
    order = validate(Budgets, await read_json(request))
    actor = actor_of(request, operator)
    return budgets(await _change(services, actor, tenant, order.model_dump()))


@router.get("/limits-in-use", operation_id="listTenantLimitsInUse")
async def list_limits_in_use(
    tenant: str, services: ServicesDep, _: OperatorDep, wanted: PageDep
) -> LimitsList:
    """The limits of the tenant and of every model, member and key that has some, with their use."""
    async with system_of(services).unit_of_work() as session:
        row = await services.tenants.find_tenant(session, tenant)
        page = await page_of_limits(session, TenantId(row.id), wanted)
    return LimitsList(data=list(map(limits_used, page.items)), next_cursor=page.next_cursor)


@router.put(
    "/models/{model}/limits",
    operation_id="putTenantModelLimits",
    openapi_extra=json_body(SubjectLimits),
)
async def put_model_limits(
    tenant: str, model: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> SubjectLimits:
    """Set what the tenant may use of one model: an adapter, whatever the version, or the base."""
    order = validate(SubjectLimits, await read_json(request))
    async with system_of(services).unit_of_work() as session:
        row = await services.tenants.find_tenant(session, tenant)
        await services.catalogue.check_known(session, TenantId(row.id), model)
        changed = await change_limits(
            session,
            actor_of(request, operator),
            TenantId(row.id),
            Subject.MODEL,
            model,
            order.model_dump(),
        )
        return subject_limits(changed)


async def _row(services: Services, tenant: str) -> Limits:
    async with system_of(services).unit_of_work() as session:
        row = await services.tenants.find_tenant(session, tenant)
        return await limits_of(session, TenantId(row.id))


async def _change(
    services: Services, actor: Actor, tenant: str, values: Mapping[str, int | None]
) -> Limits:
    async with system_of(services).unit_of_work() as session:
        row = await services.tenants.find_tenant(session, tenant)
        return await change_limits(session, actor, TenantId(row.id), Subject.TENANT, "", values)
