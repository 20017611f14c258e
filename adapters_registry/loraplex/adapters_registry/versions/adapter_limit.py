"""How many adapters a tenant may have; deleted ones count again when they are restored."""

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import TooManyAdapters
from loraplex.adapters_registry.versions.models import Adapter
from loraplex.platform.admission.limits import limits_of
from loraplex.platform.tenancy.identity import TenantId

# Two transactions must not both find the last place.
LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('adapters ' || :tenant, 0))")


async def check(session: AsyncSession, tenant_id: TenantId) -> None:
    """Raise TooManyAdapters where this transaction has made or restored one too many."""
    limit = (await limits_of(session, tenant_id)).max_adapters
    if limit is None:
        return
    await session.flush()
    await session.execute(LOCK, {"tenant": str(tenant_id)})
    count = await session.scalar(
        select(func.count(Adapter.id)).where(
            Adapter.tenant_id == tenant_id, Adapter.deleted_at.is_(None)
        )
    )
    if (count or 0) > limit:
        raise TooManyAdapters(limit)
