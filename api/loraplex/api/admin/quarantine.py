"""Operators take a tenant's version out of service, and put it back."""

from typing import Annotated

from fastapi import APIRouter, Path, Request

from loraplex.adapters_registry.versions import quarantine
from loraplex.api.acting import actor_of
from loraplex.api.admin.errors import system_of
from loraplex.api.admin.schemas import QuarantineOrder
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.services import ServicesDep
from loraplex.api.tenant.adapters import version_shown
from loraplex.api.tenant.schemas import Version
from loraplex.api.validation import read_json, validate

router = APIRouter(
    prefix="/api/v1/admin/tenants/{tenant}/adapters/{name}/versions/{number}",
    tags=["admin"],
    responses=PROBLEM,
)

Number = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.post(
    "/quarantine", operation_id="quarantineVersion", openapi_extra=json_body(QuarantineOrder)
)
async def quarantine_version(
    tenant: str,
    name: str,
    number: Number,
    request: Request,
    services: ServicesDep,
    operator: OperatorDep,
) -> Version:
    """Make a version uncallable from the next request on; the tenant is told the reason."""
    order = validate(QuarantineOrder, await read_json(request))
    actor = actor_of(request, operator)
    async with system_of(services).unit_of_work() as session:
        owner = await services.tenants.find_tenant(session, tenant)
        view = await quarantine.quarantine(session, actor, owner, name, number, order.reason)
    return version_shown(view)


@router.post("/release", operation_id="releaseVersion")
async def release_version(
    tenant: str,
    name: str,
    number: Number,
    request: Request,
    services: ServicesDep,
    operator: OperatorDep,
) -> Version:
    """Undo a quarantine."""
    actor = actor_of(request, operator)
    async with system_of(services).unit_of_work() as session:
        owner = await services.tenants.find_tenant(session, tenant)
        view = await quarantine.release(session, actor, owner, name, number)
    return version_shown(view)
