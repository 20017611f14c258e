"""Moves an import's status by compare-and-set, so that a task may run twice or die at any moment.

    queued ──begin──▶ fetching ──complete──▶ completed
      ▲                  │ └──────fail─────▶ failed
      └────put_back──────┘        (and the sweeper, past the deadline)

`attempts` fences, and while one runs its deadline is a lease that it renews. How many run at once
is bounded, and for one tenant more tightly, so that slow sources hold up neither other tenants nor
what else the jobs do. However an import ends, its credentials are wiped and its quota is free.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.imports.endings import (
    MAX_ERROR_CHARACTERS,
    EndedImport,
    ended,
    failed,
    tell,
)
from loraplex.adapters_registry.imports.errors import ImportGivenUp
from loraplex.adapters_registry.imports.models import AdapterImport, ImportStatus
from loraplex.adapters_registry.imports.turns import ask_next, has_room
from loraplex.adapters_registry.uploads import quota
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.leases import LEASE_SECONDS, LeaseLost
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.webhooks.event_types import EventType

FIRST_BACK_OFF_SECONDS = 5
MAX_ATTEMPTS = 5
SWEEP_BATCH = 100


@dataclass(frozen=True)
class Attempt:
    """One begun import, and the fence. It is the owner that `Uploads` takes files for."""

    tenant_id: TenantId
    tenant_name: str
    namespace: TenantNamespace
    import_id: UUID
    number: int
    adapter_name: str
    base_name: str
    sealed_source: bytes = field(repr=False)

    @property
    def name(self) -> EndedImport:
        return EndedImport(self.tenant_id, self.import_id, self.adapter_name)


async def begin(
    session: AsyncSession, tenant_id: TenantId, import_id: UUID, slots: int
) -> Attempt | None:
    """Claim a queued import; None when it is not waiting or not its turn."""
    if not await has_room(session, tenant_id, slots):
        return None
    row = AdapterImport
    claim = (
        update(row)
        .where(row.tenant_id == tenant_id, row.id == import_id, row.status == ImportStatus.QUEUED)
        .values(
            status=ImportStatus.FETCHING,
            attempts=row.attempts + 1,
            fetched_bytes=0,
            deadline_at=in_seconds(LEASE_SECONDS),
        )
        .returning(row.attempts, row.adapter_name, row.base_name, row.sealed_source)
    )
    claimed = (await session.execute(claim)).first()
    if claimed is None:
        return None
    tenant = await session.get_one(Tenant, tenant_id)
    return Attempt(
        tenant_id=tenant_id,
        tenant_name=tenant.name,
        namespace=TenantNamespace(tenant.namespace),
        import_id=import_id,
        number=claimed.attempts,
        adapter_name=claimed.adapter_name,
        base_name=claimed.base_name,
        sealed_source=claimed.sealed_source,
    )


async def renew(session: AsyncSession, attempt: Attempt, fetched_bytes: int) -> bool:
    """Say that the attempt is alive; False when it is no longer the current one.

    One that has made its version lives on: it still puts blobs where nobody collects them.
    """
    values = {"deadline_at": in_seconds(LEASE_SECONDS), "fetched_bytes": fetched_bytes}
    if await settle(session, attempt, values):
        return True
    row = AdapterImport
    completed = select(row.id).where(
        row.tenant_id == attempt.tenant_id,
        row.id == attempt.import_id,
        row.status == ImportStatus.COMPLETED,
        row.attempts == attempt.number,
    )
    return await session.scalar(completed) is not None


async def reserve(session: AsyncSession, attempt: Attempt, size_bytes: int) -> None:
    """Set aside what the source announces; raises LeaseLost and StorageQuotaExceeded."""
    # Holds the row, so that nobody ends the import, and releases, before this reservation is made.
    if not await settle(session, attempt, {"attempts": attempt.number}):
        raise LeaseLost("the import was given to somebody else")
    await quota.reserve(session, attempt.tenant_id, attempt.import_id, size_bytes, lease=None)


async def complete(
    session: AsyncSession, attempt: Attempt, version: int, fetched_bytes: int
) -> None:
    """Note the version, in the transaction that makes it; LeaseLost undoes both."""
    values = {
        "status": ImportStatus.COMPLETED,
        "version": version,
        "fetched_bytes": fetched_bytes,
        "last_error": None,
    }
    if not await settle(session, attempt, values | ended()):
        raise LeaseLost("the import was given to somebody else")
    await tell(session, attempt.name, EventType.IMPORT_COMPLETED, {"version": version})


async def fail(session: AsyncSession, attempt: Attempt, error: DomainError) -> bool:
    """End it for a reason that another attempt would meet again."""
    if not await settle(session, attempt, failed(error)):
        return False
    await quota.release(session, attempt.tenant_id, attempt.import_id)
    await tell(session, attempt.name, EventType.IMPORT_FAILED, {"error": error.code})
    return True


async def put_back(session: AsyncSession, attempt: Attempt, error: str) -> bool:
    """Wait for another attempt, or give up after the last; False when no longer current."""
    error = error[:MAX_ERROR_CHARACTERS]
    if attempt.number >= MAX_ATTEMPTS:
        return await fail(session, attempt, ImportGivenUp(attempt.number, error))
    wait = in_seconds(FIRST_BACK_OFF_SECONDS * 2 ** (attempt.number - 1))
    values = {"status": ImportStatus.QUEUED, "deadline_at": wait, "last_error": error}
    return await settle(session, attempt, values)


async def settle(session: AsyncSession, attempt: Attempt, values: dict[str, Any]) -> bool:
    row = AdapterImport
    statement = (
        update(row)
        .where(
            row.tenant_id == attempt.tenant_id,
            row.id == attempt.import_id,
            row.status == ImportStatus.FETCHING,
            row.attempts == attempt.number,
        )
        .values(**values)
        .returning(row.id)
    )
    return await session.scalar(statement) is not None


async def sweep(session: AsyncSession, slots: int) -> int:
    """Take imports back from workers that fell silent, and ask for those that may go on.

    Answers how many were taken back. Two sweepers at once take different rows.
    """
    row = AdapterImport
    silent = (
        select(row)
        .where(row.status == ImportStatus.FETCHING, row.deadline_at < func.now())
        .limit(SWEEP_BATCH)
        .with_for_update(skip_locked=True)
    )
    taken = (await session.scalars(silent)).all()
    for one in taken:
        if one.attempts >= MAX_ATTEMPTS:
            given_up = ImportGivenUp(one.attempts, one.last_error)
            values = failed(given_up)
            ended_one = EndedImport.of(one)
            await quota.release(session, ended_one.tenant_id, one.id)
            await tell(session, ended_one, EventType.IMPORT_FAILED, {"error": given_up.code})
        else:
            values = {"status": ImportStatus.QUEUED, "deadline_at": func.now()}
        await session.execute(update(row).where(row.id == one.id).values(**values))
    await ask_next(session, slots, only_late=True)
    return len(taken)


def in_seconds(seconds: float) -> ColumnElement[Any]:
    return func.now() + timedelta(seconds=seconds)
