"""What tenants are called: for operators' pages and what is written down by their ids."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.tenancy.models import Tenant


async def tenant_names(session: AsyncSession, ids: Iterable[UUID]) -> Mapping[UUID, str]:
    """Names by id. Needs role `system` for any but one's own."""
    wanted = set(ids)
    if not wanted:
        return {}
    rows = await session.execute(select(Tenant.id, Tenant.name).where(Tenant.id.in_(wanted)))
    return {row.id: row.name for row in rows}


async def tenant_ids_named(session: AsyncSession, names: Sequence[str]) -> list[UUID]:
    """Ids of the tenants that have one of these names; a name that none has gives nothing."""
    return list(await session.scalars(select(Tenant.id).where(Tenant.name.in_(names))))
