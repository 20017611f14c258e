"""Which tenants' files workers are to remove from their machines: those of deleted tenants."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import func, literal, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.lifecycle.models import TenantDeletion

TOLD_AGAIN = timedelta(hours=1)
"""How long renewals tell of a deletion. Who misses them all has lost its lease, and registers."""


async def gone_namespaces(session: AsyncSession, *, is_renewal: bool) -> Sequence[str]:
    """Namespaces of tenants whose deletion has finished: lately, or ever for who registers.

    A machine that was off keeps its disk, whatever was deleted meanwhile. Needs role `system`.
    """
    finished = select(TenantDeletion.namespace).where(TenantDeletion.finished_at.is_not(None))
    if is_renewal:
        finished = finished.where(TenantDeletion.finished_at > func.now() - literal(TOLD_AGAIN))
    return (await session.scalars(finished)).all()
