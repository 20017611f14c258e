"""Finds uploads that have stayed in a transient state past their time, of every tenant.

On role `system`. Two sweepers at once take different rows.
"""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.uploads import lifecycle
from loraplex.adapters_registry.uploads.errors import UploadNotFinished
from loraplex.adapters_registry.uploads.models import Upload, UploadStatus
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.leases import LEASE_SECONDS
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit

SWEEP_BATCH = 100
ENDED_KEPT = timedelta(days=7)
"""How long an ended upload can be asked about."""


async def sweep_completing(session: AsyncSession) -> int:
    """Ask again for what is past its deadline; give up on what was tried too often. How many."""
    late = (Upload.status == UploadStatus.COMPLETING) & (Upload.deadline_at < func.now())
    uploads = await _locked(session, late)
    for upload in uploads:
        tenant_id = TenantId(upload.tenant_id)
        if upload.attempts >= lifecycle.MAX_ATTEMPTS:
            values = lifecycle.failed(UploadNotFinished(upload.attempts))
            await lifecycle.end(session, tenant_id, upload.id, late, values)
            continue
        values = {"claimed_at": None, "deadline_at": lifecycle.in_seconds(lifecycle.QUEUE_SECONDS)}
        await lifecycle.move(session, tenant_id, upload.id, late, values)
        await lifecycle.ask(session, tenant_id, upload.id)
    return len(uploads)


async def sweep_pending(session: AsyncSession) -> int:
    """End what nobody completed in time. How many."""
    late = (Upload.status == UploadStatus.PENDING) & (Upload.expires_at < func.now())
    uploads = await _locked(session, late)
    for upload in uploads:
        tenant_id = TenantId(upload.tenant_id)
        await lifecycle.end(session, tenant_id, upload.id, late, {"status": UploadStatus.EXPIRED})
        data = {"upload_id": str(upload.id), "adapter": upload.adapter_name}
        await emit(session, tenant_id, EventType.UPLOAD_EXPIRED, data)
    return len(uploads)


async def claim_uncleared(session: AsyncSession) -> Sequence[tuple[Upload, TenantNamespace]]:
    """Ended uploads of which something may be left in the staging area, for one sweeper alone.

    The claim is their deadline, as LEASE_SECONDS say; `renew_clearing` moves it on.
    """
    free = Upload.deadline_at.is_(None) | (Upload.deadline_at < func.now())
    statement = (
        select(Upload, Tenant.namespace)
        .join(Tenant, Tenant.id == Upload.tenant_id)
        .where(Upload.ended_at.is_not(None), Upload.cleared_at.is_(None), free)
        .order_by(Upload.ended_at)
        .limit(SWEEP_BATCH)
        .with_for_update(of=Upload, skip_locked=True)
    )
    claimed = [(row[0], TenantNamespace(row[1])) for row in await session.execute(statement)]
    await renew_clearing(session, [upload.id for upload, _ in claimed])
    return claimed


async def renew_clearing(session: AsyncSession, upload_ids: Sequence[UUID]) -> bool:
    """Move the claim on what is left of these; False where nothing is."""
    mine = Upload.id.in_(upload_ids) & Upload.cleared_at.is_(None)
    moved = await session.scalars(
        update(Upload)
        .where(mine)
        .values(deadline_at=lifecycle.in_seconds(LEASE_SECONDS))
        .returning(Upload.id)
        .execution_options(synchronize_session=False)
    )
    return bool(moved.all())


async def let_go(session: AsyncSession, upload_ids: Sequence[UUID]) -> None:
    """Leave what could not be cleared to the next sweep."""
    mine = Upload.id.in_(upload_ids) & Upload.cleared_at.is_(None)
    await session.execute(update(Upload).where(mine).values(deadline_at=None))


async def forget(session: AsyncSession) -> int:
    """Delete uploads that ended long ago, with their files and parts. How many."""
    old = (Upload.ended_at < func.now() - ENDED_KEPT) & Upload.cleared_at.is_not(None)
    gone = await session.scalars(
        delete(Upload).where(old).returning(Upload.id).execution_options(synchronize_session=False)
    )
    return len(gone.all())


async def _locked(session: AsyncSession, late: ColumnElement[bool]) -> Sequence[Upload]:
    statement = select(Upload).where(late).order_by(Upload.created_at).limit(SWEEP_BATCH)
    return (await session.scalars(statement.with_for_update(skip_locked=True))).all()
