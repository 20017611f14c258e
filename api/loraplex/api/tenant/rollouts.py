"""An adapter's rollouts: start, watch, weigh, pause, promote, roll back."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Request, Response
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.rollouts import conditions, service
from loraplex.adapters_registry.rollouts.service import Plan
from loraplex.adapters_registry.rollouts.views import RolloutView
from loraplex.api.acting import record_own
from loraplex.api.authentication import AdapterReaderDep, AdapterWriterDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.api.tenant.nearness import foretell
from loraplex.api.tenant.schemas import Rollout, RolloutChange, RolloutList, RolloutPlan
from loraplex.api.validation import read_json, validate
from loraplex.platform.audit.actors import Target
from loraplex.platform.tenancy.principals import TenantPrincipal

router = APIRouter(prefix="/api/v1/adapters/{name}/rollouts", tags=["rollouts"], responses=PROBLEM)

RolloutId = Annotated[UUID, Path(description="The rollout's id.")]


@router.post("", operation_id="startRollout", status_code=201, openapi_extra=json_body(RolloutPlan))
async def start_rollout(
    name: str,
    request: Request,
    response: Response,
    services: ServicesDep,
    principal: AdapterWriterDep,
) -> Rollout:
    """Send a share of an alias's conversations to another version."""
    wanted = validate(RolloutPlan, await read_json(request))
    plan = Plan(**wanted.model_dump())
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view = await service.start(session, principal, name, plan)
        await record_own(
            session,
            request,
            principal,
            "rollout.started",
            _target(view),
            after=_told(view) | {"stable_version": view.stable_version},
        )
    await foretell(services, principal, name, view.version)
    response.headers["Location"] = f"/api/v1/adapters/{name}/rollouts/{view.id}"
    return _rollout(view)


@router.get("", operation_id="listRollouts")
async def list_rollouts(
    name: str, services: ServicesDep, principal: AdapterReaderDep, wanted: PageDep
) -> RolloutList:
    """The adapter's rollouts, newest first."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        page = await service.list_rollouts(session, principal, name, wanted)
    return RolloutList(data=[_rollout(one) for one in page.items], next_cursor=page.next_cursor)


@router.get("/{rollout_id}", operation_id="getRollout")
async def get_rollout(
    name: str, rollout_id: RolloutId, services: ServicesDep, principal: AdapterReaderDep
) -> Rollout:
    """One rollout, with what was last observed of its new version."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        return _rollout(await service.get_rollout(session, principal, name, rollout_id))


Step = Callable[[AsyncSession, TenantPrincipal, str, UUID], Awaitable[RolloutView]]


async def step_of_rollout(
    name: str,
    rollout_id: RolloutId,
    request: Request,
    services: ServicesDep,
    principal: AdapterWriterDep,
) -> Callable[[str, Step], Awaitable[Rollout]]:
    """What takes the path's rollout a step on, and notes it where something changed."""

    async def take(verb: str, step: Step) -> Rollout:
        async with services.database.unit_of_work(principal.tenant_id) as session:
            await conditions.hold(session, principal, name)  # what is read now is changed then
            before = await service.get_rollout(session, principal, name, rollout_id)
            after = await step(session, principal, name, rollout_id)
            if _told(before) != _told(after):
                await record_own(
                    session,
                    request,
                    principal,
                    f"rollout.{verb}",
                    _target(after),
                    before=_told(before),
                    after=_told(after),
                )
        return _rollout(after)

    return take


StepDep = Annotated[Callable[[str, Step], Awaitable[Rollout]], Depends(step_of_rollout)]


@router.patch("/{rollout_id}", operation_id="changeRollout", openapi_extra=json_body(RolloutChange))
async def change_rollout(request: Request, take: StepDep) -> Rollout:
    """Give the new version another share. Who got it keeps it when the share grows."""
    change = validate(RolloutChange, await read_json(request))
    return await take("weighed", partial(service.set_weight, weight=change.weight))


@router.post("/{rollout_id}/pause", operation_id="pauseRollout")
async def pause_rollout(take: StepDep) -> Rollout:
    """Send nothing to the new version until the rollout is resumed."""
    return await take("paused", service.pause)


@router.post("/{rollout_id}/resume", operation_id="resumeRollout")
async def resume_rollout(take: StepDep) -> Rollout:
    """Send the new version its share again, and count its errors anew."""
    return await take("resumed", service.resume)


@router.post("/{rollout_id}/promote", operation_id="promoteRollout")
async def promote_rollout(take: StepDep) -> Rollout:
    """Move the alias to the new version and end the rollout."""
    return await take("promoted", service.promote)


@router.post("/{rollout_id}/roll-back", operation_id="rollBackRollout")
async def roll_back_rollout(take: StepDep) -> Rollout:
    """Leave the alias where it is and end the rollout."""
    return await take("rolled_back", service.roll_back)


def _target(view: RolloutView) -> Target:
    return Target("rollout", view.id, f"{view.adapter}:{view.alias}")


def _told(view: RolloutView) -> dict[str, object]:
    return {"status": view.status.value, "version": view.version, "weight": view.weight}


def _rollout(view: RolloutView) -> Rollout:
    return Rollout(
        id=str(view.id),
        adapter=view.adapter,
        alias=view.alias,
        stable_version=view.stable_version,
        version=view.version,
        weight=view.weight,
        status=view.status.value,
        error_rate_limit=view.error_rate_limit,
        window_seconds=view.window_seconds,
        minimum_requests=view.minimum_requests,
        observed_requests=view.observed_requests,
        observed_errors=view.observed_errors,
        created_at=view.created_at,
        ended_at=view.ended_at,
        end_reason=view.end_reason,
    )
