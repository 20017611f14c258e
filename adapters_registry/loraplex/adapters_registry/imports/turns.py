"""Whose import is fetched next: so many at once, and for one tenant fewer, the oldest first."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from uuid import UUID

from sqlalchemy import func, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.imports.models import AdapterImport, ImportStatus
from loraplex.platform.database.outbox import enqueue

FETCH_IMPORT = "loraplex.adapters_registry.fetch_import"

QUEUE_SECONDS = 20
"""How long an import may wait before the sweeper asks for it again."""
FETCHING_PER_TENANT = 1

# Whoever begins one and whoever asks for more must see each other's counts.
LOCK_SLOTS = text("SELECT pg_advisory_xact_lock(hashtextextended('loraplex imports', 0))")


async def ask(session: AsyncSession, tenant_id: UUID, import_id: UUID) -> None:
    """Have the import fetched once this transaction has committed."""
    arguments = {"tenant_id": str(tenant_id), "import_id": str(import_id)}
    await enqueue(session, FETCH_IMPORT, arguments)


async def has_room(session: AsyncSession, tenant_id: UUID, slots: int) -> bool:
    """Whether one more import of the tenant's may be fetched; holds until the transaction ends."""
    await session.execute(LOCK_SLOTS)
    busy = await fetching(session)
    return busy.total() < slots and busy[tenant_id] < FETCHING_PER_TENANT


async def ask_next(session: AsyncSession, slots: int, *, only_late: bool = False) -> int:
    """Ask for as many queued imports as have room, each tenant's oldest first; how many.

    With `only_late`, leaves out what was asked for a moment ago.
    """
    await session.execute(LOCK_SLOTS)
    busy = await fetching(session)
    row = AdapterImport
    is_late = row.deadline_at <= func.now()
    turn = func.row_number().over(partition_by=row.tenant_id, order_by=(row.created_at, row.id))
    waiting = (
        select(row.tenant_id, row.id, row.created_at, turn.label("turn"))
        .where(
            row.status == ImportStatus.QUEUED,
            is_late if only_late else is_late | (row.attempts == 0),
            row.tenant_id.not_in(
                tenant for tenant, count in busy.items() if count >= FETCHING_PER_TENANT
            ),
        )
        .subquery()
    )
    chosen = await session.execute(
        select(waiting.c.tenant_id, waiting.c.id)
        .where(waiting.c.turn <= FETCHING_PER_TENANT)
        .order_by(waiting.c.created_at)
        .limit(max(0, slots - busy.total()))
    )
    asked = chosen.all()
    for tenant_id, import_id in asked:
        await session.execute(
            update(row)
            .where(row.id == import_id)
            .values(deadline_at=func.now() + timedelta(seconds=QUEUE_SECONDS))
        )
        await ask(session, tenant_id, import_id)
    return len(asked)


async def fetching(session: AsyncSession) -> Counter[UUID]:
    """How many imports are being fetched right now, by tenant."""
    row = AdapterImport
    live = select(row.tenant_id).where(
        row.status == ImportStatus.FETCHING, row.deadline_at > func.now()
    )
    return Counter(await session.scalars(live))
