"""What adapters are called, deleted ones as well: for what is written down by their ids."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.versions.models import Adapter


async def names_of(session: AsyncSession, ids: Iterable[UUID]) -> Mapping[UUID, str]:
    """Those that still have a name; what was purged has none."""
    wanted = set(ids)
    if not wanted:
        return {}
    rows = await session.execute(select(Adapter.id, Adapter.name).where(Adapter.id.in_(wanted)))
    return {row.id: row.name for row in rows}


async def ids_of(
    session: AsyncSession, names: Sequence[str], tenant_ids: Sequence[UUID] | None
) -> list[UUID]:
    """Every adapter of one of these names, of these tenants; None is of all."""
    statement = select(Adapter.id).where(Adapter.name.in_(names))
    if tenant_ids is not None:
        statement = statement.where(Adapter.tenant_id.in_(tenant_ids))
    return list(await session.scalars(statement))
