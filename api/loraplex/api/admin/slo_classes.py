"""Operators choose classes of service for tenants and keys."""

from uuid import UUID

from fastapi import APIRouter, Request

from loraplex.api.acting import actor_of
from loraplex.api.admin.errors import system_of
from loraplex.api.admin.slo_schemas import (
    SloChoice,
    SloChoices,
    SloClass,
    SloClassList,
    SloOrder,
)
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.services import Services, ServicesDep
from loraplex.api.validation import read_json, validate
from loraplex.platform.audit.actors import Actor
from loraplex.platform.slo import service
from loraplex.platform.slo.classes import PRIORITY_NAMES

router = APIRouter(prefix="/api/v1/admin", tags=["admin"], responses=PROBLEM)


@router.get("/slo-classes", operation_id="listSloClasses", summary="List classes of service")
async def list_slo_classes(services: ServicesDep, _: OperatorDep) -> SloClassList:
    """Every class of service, as the operator's settings have them."""
    classes = services.slo_classes
    return SloClassList(
        data=[
            SloClass(
                name=one.name,
                is_default=one is classes.default,
                priority=PRIORITY_NAMES[one.priority],
                fair_weight=one.fair_weight,
                objectives={name.value: limit for name, limit in one.objectives.items()},
            )
            for one in classes.by_name.values()
        ]
    )


@router.put(
    "/tenants/{tenant}/slo-class",
    operation_id="chooseSloClassOfTenant",
    summary="Choose a tenant's class of service",
    openapi_extra=json_body(SloOrder),
)
async def choose_of_tenant(
    tenant: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> SloChoices:
    """Give a tenant a class, or take it back; in force within five seconds."""
    order = validate(SloOrder, await read_json(request))
    return await _choose(services, actor_of(request, operator), tenant, order, None)


@router.put(
    "/tenants/{tenant}/keys/{key_id}/slo-class",
    operation_id="chooseSloClassOfKey",
    summary="Choose a key's class of service",
    openapi_extra=json_body(SloOrder),
)
async def choose_of_key(
    tenant: str, key_id: UUID, request: Request, services: ServicesDep, operator: OperatorDep
) -> SloChoices:
    """Give one key a class of its own, or take it back; in force within five seconds."""
    order = validate(SloOrder, await read_json(request))
    return await _choose(services, actor_of(request, operator), tenant, order, key_id)


async def _choose(
    services: Services, actor: Actor, tenant: str, order: SloOrder, key_id: UUID | None
) -> SloChoices:
    if order.slo_class is not None:
        services.slo_classes.named(order.slo_class)
    async with system_of(services).unit_of_work() as session:
        owner = await services.tenants.find_tenant(session, tenant)
        await service.choose(session, actor, owner, order.slo_class, key_id=key_id)
        rows = await service.choices_of(session, owner)
    return SloChoices(
        data=[SloChoice(key_id=row.api_key_id, slo_class=row.slo_class) for row in rows]
    )
