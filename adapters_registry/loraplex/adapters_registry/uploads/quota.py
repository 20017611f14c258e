"""The storage quota: what is stored and what is on its way in, per tenant, never more than allowed.

Bytes are reserved before they come and given back on every way out: when the blobs they became are
recorded, when the upload is refused, aborted or fails, or when the lease of a dead process ends.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import delete, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.uploads.errors import StorageQuotaExceeded
from loraplex.adapters_registry.uploads.models import Blob, StorageReservation
from loraplex.engine.protocol.identity import Digest
from loraplex.platform.admission.limits import limits_of
from loraplex.platform.switches.service import refuse_if_uploads_are_off
from loraplex.platform.tenancy.identity import TenantId

# Two requests must not both find the last free byte. The lock is not admission's, so that an
# upload never holds up a completion.
LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('storage ' || :tenant, 0))")
LEASE = timedelta(hours=2)
"""Longer than a form may take to arrive; only what a killed process reserved lasts so long."""


class StorageUsage(NamedTuple):
    stored_bytes: int
    reserved_bytes: int
    limit_bytes: int | None
    """None: as much as the store takes."""

    @property
    def used_bytes(self) -> int:
        return self.stored_bytes + self.reserved_bytes


async def lock(session: AsyncSession, tenant_id: TenantId) -> None:
    """Wait for every other transaction that reserves for this tenant, and hold up those to come."""
    await session.execute(LOCK, {"tenant": str(tenant_id)})


async def usage(session: AsyncSession, tenant_id: TenantId) -> StorageUsage:
    """What the tenant stores, has reserved and may have in all."""
    stored = select(func.coalesce(func.sum(Blob.size_bytes), 0)).where(Blob.tenant_id == tenant_id)
    reserved = select(func.coalesce(func.sum(StorageReservation.size_bytes), 0)).where(
        StorageReservation.tenant_id == tenant_id
    )
    counted = await session.execute(select(stored.scalar_subquery(), reserved.scalar_subquery()))
    stored_bytes, reserved_bytes = counted.one()
    limits = await limits_of(session, tenant_id)
    return StorageUsage(int(stored_bytes), int(reserved_bytes), limits.max_storage_bytes)


async def reserve(
    session: AsyncSession,
    tenant_id: TenantId,
    reservation_id: UUID,
    size_bytes: int,
    lease: timedelta | None = LEASE,
) -> None:
    """Set bytes aside, or change how many a reservation has.

    Every way in begins here, so it raises UploadsOff besides StorageQuotaExceeded. Without a lease
    the reservation stays until it is released: for owners with a row and a sweeper of their own.
    """
    await refuse_if_uploads_are_off(session)
    await lock(session, tenant_id)
    mine = (StorageReservation.tenant_id == tenant_id) & (StorageReservation.id == reservation_id)
    held_bytes = await session.scalar(select(StorageReservation.size_bytes).where(mine)) or 0
    found = await usage(session, tenant_id)
    others_bytes = found.used_bytes - held_bytes
    most_bytes = found.limit_bytes
    if most_bytes is not None and held_bytes < size_bytes > most_bytes - others_bytes:
        raise StorageQuotaExceeded(most_bytes, others_bytes, size_bytes)
    expires_at = None if lease is None else func.now() + lease
    values = {"size_bytes": size_bytes, "expires_at": expires_at}
    await session.execute(
        insert(StorageReservation)
        .values(tenant_id=tenant_id, id=reservation_id, **values)
        .on_conflict_do_update(
            index_elements=[StorageReservation.tenant_id, StorageReservation.id], set_=values
        )
    )


async def release(session: AsyncSession, tenant_id: TenantId, reservation_id: UUID) -> None:
    """Give a reservation back; one that is gone already does no harm."""
    await session.execute(
        delete(StorageReservation).where(
            StorageReservation.tenant_id == tenant_id, StorageReservation.id == reservation_id
        )
    )


async def record(
    session: AsyncSession, tenant_id: TenantId, sizes_bytes: Mapping[Digest, int]
) -> None:
    """Count blobs as stored, each once, and hold their rows until this transaction ends.

    Whoever is deleting one of them is waited for; whoever would, finds it as young as new.
    """
    rows = [
        {"tenant_id": tenant_id, "digest": digest, "size_bytes": size_bytes}
        for digest, size_bytes in sorted(sizes_bytes.items())  # one order, so that nobody deadlocks
    ]
    await session.execute(
        insert(Blob)
        .values(rows)
        .on_conflict_do_update(
            index_elements=[Blob.tenant_id, Blob.digest], set_={"created_at": func.now()}
        )
    )


async def sweep_reservations(session: AsyncSession) -> int:
    """Give back what dead processes reserved, of every tenant (role `system`); how many."""
    lapsed = await session.scalars(
        delete(StorageReservation)
        .where(StorageReservation.expires_at < func.now())
        .returning(StorageReservation.id)
    )
    return len(lapsed.all())
