"""Rollouts: an alias's traffic split between its version and a candidate, until one has all of it.

    running ◀──pause / resume──▶ paused
       └──────────┬─────────────────┘
          promoted | rolled_back          (the alias moves only when promoted)

Every change holds the adapter's row and compares the status first; what has ended never changes.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.rollouts import aliases, conditions
from loraplex.adapters_registry.rollouts.errors import (
    AliasNotFound,
    RolloutEnded,
    RolloutNotFound,
    SameVersion,
    VersionNotCallable,
)
from loraplex.adapters_registry.rollouts.models import MoveKind, Rollout, RolloutStatus
from loraplex.adapters_registry.rollouts.views import RolloutView
from loraplex.adapters_registry.versions.models import Adapter, VersionStatus
from loraplex.adapters_registry.versions.standing import obstacle
from loraplex.platform.database.pages import FIRST_PAGE, Keyset, Page, PageRequest
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.principals import TenantPrincipal
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit

NEWEST_ROLLOUTS = Keyset("rollouts", Rollout.created_at, Rollout.id, descending=True)
REQUESTED = "requested"
EVENTS = {
    RolloutStatus.RUNNING: EventType.ROLLOUT_RESUMED,
    RolloutStatus.PAUSED: EventType.ROLLOUT_PAUSED,
    RolloutStatus.PROMOTED: EventType.ROLLOUT_PROMOTED,
    RolloutStatus.ROLLED_BACK: EventType.ROLLOUT_ROLLED_BACK,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rollout shall do; see `models.Rollout` for the meaning of each."""

    alias: str
    version: int
    weight: int
    error_rate_limit: int
    window_seconds: int
    minimum_requests: int


async def start(
    session: AsyncSession, principal: TenantPrincipal, name: str, plan: Plan
) -> RolloutView:
    """Begin to send `weight` of 100 conversations of an alias to a candidate.

    The candidate may still be in validation; it gets nothing before it is ready. Raises
    AdapterNotFound, AliasNotFound, RolloutOpen, SameVersion, VersionNotFound, VersionNotCallable.
    """
    held = await conditions.hold(session, principal, name)
    row = await conditions.alias_row(session, held.adapter, plan.alias)
    if row is None or row.version is None:
        raise AliasNotFound(name, plan.alias)
    await conditions.check_no_rollout(session, held.adapter, plan.alias)
    if row.version == plan.version:
        raise SameVersion(plan.alias, plan.version)
    candidate = await conditions.version_row(session, held, plan.version)
    why = obstacle(candidate, held.base)
    is_being_checked = candidate.status in (VersionStatus.UPLOADED, VersionStatus.VALIDATING)
    if why is not None and not is_being_checked:
        raise VersionNotCallable(plan.version, why)
    rollout = Rollout(
        tenant_id=principal.tenant_id,
        adapter_id=held.adapter.id,
        alias=plan.alias,
        stable_version=row.version,
        candidate_version=plan.version,
        weight=plan.weight,
        error_rate_limit=plan.error_rate_limit,
        window_seconds=plan.window_seconds,
        minimum_requests=plan.minimum_requests,
    )
    session.add(rollout)
    await session.flush()
    await session.refresh(rollout)
    await tell(session, principal.tenant_id, held.adapter, rollout, EventType.ROLLOUT_STARTED)
    return RolloutView.of(rollout, name)


async def list_rollouts(
    session: AsyncSession,
    principal: TenantPrincipal,
    name: str,
    wanted: PageRequest = FIRST_PAGE,
) -> Page[RolloutView]:
    """An adapter's rollouts, newest first. Raises AdapterNotFound and InvalidCursor."""
    adapter = await conditions.find(session, principal, name)
    statement = select(Rollout).where(
        Rollout.tenant_id == principal.tenant_id, Rollout.adapter_id == adapter.id
    )
    page = await NEWEST_ROLLOUTS.page(session, statement, wanted)
    return page.map(lambda row: RolloutView.of(row[0], name))


async def get_rollout(
    session: AsyncSession, principal: TenantPrincipal, name: str, rollout_id: UUID
) -> RolloutView:
    """One rollout. Raises AdapterNotFound and RolloutNotFound."""
    adapter = await conditions.find(session, principal, name)
    return RolloutView.of(await rollout_row(session, adapter, rollout_id), name)


async def set_weight(
    session: AsyncSession, principal: TenantPrincipal, name: str, rollout_id: UUID, weight: int
) -> RolloutView:
    """Give the candidate another share. Raises AdapterNotFound, RolloutNotFound, RolloutEnded."""
    held = await conditions.hold(session, principal, name)
    rollout = await rollout_row(session, held.adapter, rollout_id)
    if rollout.ended_at is not None:
        raise RolloutEnded(rollout_id, rollout.status)
    rollout.weight = weight
    return RolloutView.of(rollout, name)


async def pause(
    session: AsyncSession, principal: TenantPrincipal, name: str, rollout_id: UUID
) -> RolloutView:
    """Send nothing to the candidate until resumed; pausing twice changes nothing.

    Raises AdapterNotFound, RolloutNotFound, RolloutEnded.
    """
    return await change(session, principal, name, rollout_id, RolloutStatus.PAUSED)


async def resume(
    session: AsyncSession, principal: TenantPrincipal, name: str, rollout_id: UUID
) -> RolloutView:
    """Send the candidate its share again; its error rate is counted anew.

    Raises AdapterNotFound, RolloutNotFound, RolloutEnded.
    """
    return await change(session, principal, name, rollout_id, RolloutStatus.RUNNING)


async def promote(
    session: AsyncSession, principal: TenantPrincipal, name: str, rollout_id: UUID
) -> RolloutView:
    """Move the alias to the candidate and end; promoting twice changes nothing.

    Raises AdapterNotFound, RolloutNotFound, RolloutEnded, VersionNotFound, VersionNotCallable.
    """
    return await change(session, principal, name, rollout_id, RolloutStatus.PROMOTED)


async def roll_back(
    session: AsyncSession, principal: TenantPrincipal, name: str, rollout_id: UUID
) -> RolloutView:
    """Leave the alias where it is and end; rolling back twice changes nothing.

    Raises AdapterNotFound, RolloutNotFound, RolloutEnded.
    """
    return await change(session, principal, name, rollout_id, RolloutStatus.ROLLED_BACK)


async def change(
    session: AsyncSession,
    principal: TenantPrincipal,
    name: str,
    rollout_id: UUID,
    status: RolloutStatus,
) -> RolloutView:
    held = await conditions.hold(session, principal, name)
    rollout = await rollout_row(session, held.adapter, rollout_id)
    if rollout.status == status:
        return RolloutView.of(rollout, name)
    if rollout.ended_at is not None:
        raise RolloutEnded(rollout_id, rollout.status)
    if status is RolloutStatus.PROMOTED:
        await conditions.check_target(session, held, rollout.candidate_version)
        row = await conditions.alias_row(session, held.adapter, rollout.alias)
        await aliases.move(
            session,
            principal,
            held.adapter,
            rollout.alias,
            row,
            rollout.candidate_version,
            MoveKind.PROMOTED,
        )
    await enter(session, principal.tenant_id, held.adapter, rollout, status, REQUESTED)
    return RolloutView.of(rollout, name)


async def enter(
    session: AsyncSession,
    tenant_id: TenantId,
    adapter: Adapter,
    rollout: Rollout,
    status: RolloutStatus,
    reason: str,
) -> None:
    """Write an open rollout's next status and tell of it; the caller holds the adapter."""
    rollout.status = status
    if status is RolloutStatus.RUNNING:
        rollout.running_since = func.now()
        rollout.observed_requests = rollout.observed_errors = 0
    elif status is not RolloutStatus.PAUSED:
        rollout.ended_at, rollout.end_reason = func.now(), reason
    await session.flush()
    await session.refresh(rollout)
    await tell(session, tenant_id, adapter, rollout, EVENTS[status])


async def tell(
    session: AsyncSession,
    tenant_id: TenantId,
    adapter: Adapter,
    rollout: Rollout,
    event_type: EventType,
) -> None:
    data: dict[str, object] = {
        "rollout_id": str(rollout.id),
        "adapter": adapter.name,
        "alias": rollout.alias,
        "stable_version": rollout.stable_version,
        "version": rollout.candidate_version,
        "weight": rollout.weight,
    }
    if rollout.end_reason is not None:
        data["reason"] = rollout.end_reason
    await emit(session, tenant_id, event_type, data)


async def rollout_row(session: AsyncSession, adapter: Adapter, rollout_id: UUID) -> Rollout:
    statement = select(Rollout).where(
        Rollout.tenant_id == adapter.tenant_id,
        Rollout.adapter_id == adapter.id,
        Rollout.id == rollout_id,
    )
    rollout = await session.scalar(statement)
    if rollout is None:
        raise RolloutNotFound(adapter.name, rollout_id)
    return rollout
