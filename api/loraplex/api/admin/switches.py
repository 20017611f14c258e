"""Operators turn kill switches: changes, uploads or a pool off for everybody, and on again."""

from fastapi import APIRouter, Request

from loraplex.api.acting import actor_of
from loraplex.api.admin.errors import system_of
from loraplex.api.admin.switch_schemas import PoolOrder, Switch, SwitchList, SwitchOrder
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.pages import PageDep
from loraplex.api.services import Services, ServicesDep
from loraplex.api.validation import read_json, validate
from loraplex.platform.audit.actors import Actor
from loraplex.platform.switches import service
from loraplex.platform.switches.models import Switch as SwitchRow
from loraplex.platform.switches.names import draining

router = APIRouter(prefix="/api/v1/admin", tags=["admin"], responses=PROBLEM)


@router.get("/switches", operation_id="listSwitches", summary="List kill switches")
async def list_switches(services: ServicesDep, _: OperatorDep, wanted: PageDep) -> SwitchList:
    """Every switch, by name: what is on, since when and why."""
    async with system_of(services).unit_of_work() as session:
        page = await service.page_of_switches(session, wanted)
    return SwitchList(data=[_switch(row) for row in page.items], next_cursor=page.next_cursor)


@router.put(
    "/switches/{name}",
    operation_id="turnSwitch",
    summary="Turn a kill switch",
    openapi_extra=json_body(SwitchOrder),
)
async def turn_switch(
    name: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> Switch:
    """Turn a switch on or off; within five seconds it is so on every gateway.

    `read_only`: tenants change nothing, models can be called. `no_uploads`: no adapter comes in,
    and none that came in becomes callable. `drain_pool:<pool>`: no new request goes to the pool.
    """
    order = validate(SwitchOrder, await read_json(request))
    return await _turn(
        services, actor_of(request, operator), name, is_on=order.is_on, reason=order.reason
    )


@router.post(
    "/pools/{pool}/drain",
    operation_id="drainPool",
    summary="Drain a pool of workers",
    openapi_extra=json_body(PoolOrder),
)
async def drain_pool(
    pool: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> Switch:
    """Send the pool no new requests; those that run there end by themselves."""
    order = validate(PoolOrder, await read_json(request))
    actor = actor_of(request, operator)
    return await _turn(services, actor, draining(pool), is_on=True, reason=order.reason)


@router.post(
    "/pools/{pool}/undrain",
    operation_id="undrainPool",
    summary="Let a pool take requests again",
    openapi_extra=json_body(PoolOrder),
)
async def undrain_pool(
    pool: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> Switch:
    """Undo a drain; a pool that is not drained is left as it is."""
    order = validate(PoolOrder, await read_json(request))
    actor = actor_of(request, operator)
    return await _turn(services, actor, draining(pool), is_on=False, reason=order.reason)


async def _turn(services: Services, actor: Actor, name: str, *, is_on: bool, reason: str) -> Switch:
    async with system_of(services).unit_of_work() as session:
        row = await service.turn(session, actor, name, is_on=is_on, reason=reason)
    await services.switches.read()  # here it is in force before the answer
    return _switch(row)


def _switch(row: SwitchRow) -> Switch:
    return Switch(
        name=row.name,
        is_on=row.is_on,
        reason=row.reason,
        changed_by=row.changed_by,
        changed_at=row.changed_at,
    )
