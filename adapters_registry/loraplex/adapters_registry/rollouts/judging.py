"""Rolls back what serves worse than its owner allows, and what can no longer serve at all.

An error is what the ledger calls by a code of VERSION_FAULTS: the version's own failing, or one of
ours under it. A client's mistake, a client that left, a full or stopping platform are none.
"""

from datetime import timedelta

from sqlalchemy import func, literal, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.rollouts.models import Rollout, RolloutStatus
from loraplex.adapters_registry.rollouts.service import enter
from loraplex.adapters_registry.versions.models import Adapter, AdapterVersion, VersionStatus
from loraplex.engine.protocol.errors import (
    AdapterTooLarge,
    AdapterUnavailable,
    EngineFailure,
    WorkerLost,
)
from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.tenancy.identity import TenantId

ERROR_RATE = "error_rate"
CANDIDATE_UNUSABLE = "candidate_unusable"
VERSION_FAULTS = tuple(
    error.code for error in (AdapterUnavailable, AdapterTooLarge, EngineFailure, WorkerLost)
)


async def judge_rollouts(database: Database) -> int:
    """Look at every running rollout (role `system`), one transaction each; how many ended."""
    async with database.unit_of_work() as session:
        running = select(Rollout.id, Rollout.adapter_id).where(
            Rollout.status == RolloutStatus.RUNNING
        )
        found = (await session.execute(running)).all()
    ended = 0
    for rollout_id, adapter_id in found:
        async with database.unit_of_work() as session:
            # Whoever holds the adapter is changing it: the next round sees what came of that.
            held = select(Adapter).where(Adapter.id == adapter_id)
            adapter = await session.scalar(held.with_for_update(key_share=True, skip_locked=True))
            still = (Rollout.id == rollout_id) & (Rollout.status == RolloutStatus.RUNNING)
            rollout = await session.scalar(select(Rollout).where(still))
            if adapter is not None and rollout is not None:
                ended += await judge(session, adapter, rollout)
    return ended


async def judge(session: AsyncSession, adapter: Adapter, rollout: Rollout) -> bool:
    """Count what the candidate served, and roll back where that is too bad; whether it was."""
    requests, errors = await observed(session, rollout)
    rollout.observed_requests, rollout.observed_errors = requests, errors
    reason = None
    if await is_unusable(session, rollout):
        reason = CANDIDATE_UNUSABLE
    elif requests >= rollout.minimum_requests and exceeds(rollout, requests, errors):
        reason = ERROR_RATE
    if reason is None:
        return False
    tenant_id = TenantId(rollout.tenant_id)
    await enter(session, tenant_id, adapter, rollout, RolloutStatus.ROLLED_BACK, reason)
    await record(
        session,
        Actor.system("rollouts"),
        "rollout.rolled_back",
        tenant_id=tenant_id,
        target=Target("rollout", rollout.id, f"{adapter.name}:{rollout.alias}"),
        after={"reason": reason, "requests": requests, "errors": errors},
    )
    return True


def exceeds(rollout: Rollout, requests: int, errors: int) -> bool:
    return 100 * errors > rollout.error_rate_limit * requests


async def observed(session: AsyncSession, rollout: Rollout) -> tuple[int, int]:
    """The candidate's settled requests within the window, and how many of them were errors."""
    begin = func.greatest(
        rollout.running_since, func.now() - literal(timedelta(seconds=rollout.window_seconds))
    )
    is_error = LedgerEntry.error_code.in_(VERSION_FAULTS)
    statement = select(func.count(), func.count().filter(is_error)).where(
        LedgerEntry.tenant_id == rollout.tenant_id,
        LedgerEntry.adapter_id == rollout.adapter_id,
        LedgerEntry.adapter_version == rollout.candidate_version,
        LedgerEntry.admitted_at >= rollout.running_since,
        LedgerEntry.created_at >= begin,
    )
    requests, errors = (await session.execute(statement)).one()
    return requests, errors


async def is_unusable(session: AsyncSession, rollout: Rollout) -> bool:
    """Whether the candidate will not be callable by itself: rejected, quarantined or gone."""
    statement = select(AdapterVersion.status, AdapterVersion.quarantined_at).where(
        AdapterVersion.tenant_id == rollout.tenant_id,
        AdapterVersion.adapter_id == rollout.adapter_id,
        AdapterVersion.number == rollout.candidate_version,
    )
    row = (await session.execute(statement)).first()
    return row is None or row.status == VersionStatus.REJECTED or row.quarantined_at is not None
