"""Forgets what the audit log has kept long enough."""

from datetime import timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.jobs import JobContext, job

SWEEP_AUDIT = "loraplex.sweep_audit"
SWEEP_SECONDS = 3600.0
BATCH_ROWS = 1000
"""Rows a transaction deletes. Two sweeps at once take different ones."""

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "sweep-audit": {
        "task": SWEEP_AUDIT,
        "schedule": SWEEP_SECONDS,
        "options": {"expires": SWEEP_SECONDS},
    },
}


@job(SWEEP_AUDIT)
async def sweep_audit(context: JobContext) -> None:
    """Forget until nothing old is left, a batch a transaction; that it was is a line itself."""
    kept = timedelta(days=context.settings.audit_kept_days)
    forgotten, last = 0, BATCH_ROWS
    while last == BATCH_ROWS:
        async with context.database.unit_of_work() as session:
            last = await forget(session, kept)
            forgotten += last
    if forgotten:
        async with context.database.unit_of_work() as session:
            await record(
                session,
                Actor.system("retention"),
                "audit.forgotten",
                tenant_id=None,
                target=Target("audit"),
                after={"lines": forgotten, "kept_days": kept.days},
            )


async def forget(session: AsyncSession, kept: timedelta) -> int:
    """Delete a batch of lines older than `kept`, never of the last thirty days; how many."""
    forgotten = select(func.gateway.forget_audit_events(kept, BATCH_ROWS))
    count: int = (await session.execute(forgotten)).scalar_one()
    return count
