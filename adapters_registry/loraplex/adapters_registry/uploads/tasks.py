"""The background jobs of uploads: complete them, and end what nobody does."""

from contextlib import suppress
from typing import Any
from uuid import UUID

from loraplex.adapters_registry.errors import StoreUnavailable
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads import lifecycle, quota, sweeping
from loraplex.adapters_registry.uploads.clearing import clear
from loraplex.adapters_registry.uploads.completion import UploadCompleter
from loraplex.adapters_registry.uploads.staging import Staging
from loraplex.platform.jobs import JobContext, job
from loraplex.platform.leases import LeaseLost, under_lease
from loraplex.platform.tenancy.identity import TenantId

SWEEP_UPLOADS = "loraplex.adapters_registry.sweep_uploads"
SWEEP_SECONDS = 5.0

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "sweep-uploads": {
        "task": SWEEP_UPLOADS,
        "schedule": SWEEP_SECONDS,
        "options": {"expires": SWEEP_SECONDS},
    },
}


@job(lifecycle.COMPLETE_UPLOAD)
async def complete_upload(context: JobContext, tenant_id: str, upload_id: str) -> None:
    """Bring one completing upload to completed or failed."""
    completer = UploadCompleter(
        context.database,
        ObjectStore.from_settings(context.settings),
        context.settings.max_upload_bytes,
        context.settings.data_dir / "archives",
    )
    await completer.complete(TenantId(UUID(tenant_id)), UUID(upload_id))


@job(SWEEP_UPLOADS)
async def sweep_uploads(context: JobContext) -> None:
    """End uploads past their time, ask again for those that wait, and clear the staging area."""
    async with context.database.unit_of_work() as session:
        await sweeping.sweep_pending(session)
        await sweeping.sweep_completing(session)
        await quota.sweep_reservations(session)
        await sweeping.forget(session)
    await clear_ended(context)


async def clear_ended(context: JobContext) -> None:
    """Clear the staging area of ended uploads, each by one sweep at a time.

    A store that hangs holds up this sweep and no other: those that begin meanwhile find the uploads
    taken, and one that does not answer is not asked about the next.
    """
    database = context.database
    async with database.unit_of_work() as session:
        left = await sweeping.claim_uncleared(session)
    ids = [upload.id for upload, _ in left]
    if not ids:
        return
    staging = Staging(ObjectStore.from_settings(context.settings))

    async def work() -> None:
        for upload, namespace in left:
            await clear(database, staging, TenantId(upload.tenant_id), namespace, upload.id)

    async def renew() -> bool:
        async with database.unit_of_work() as session:
            return await sweeping.renew_clearing(session, ids)

    try:
        with suppress(StoreUnavailable, LeaseLost):
            await under_lease(work(), renew)
    finally:
        async with database.unit_of_work() as session:
            await sweeping.let_go(session, ids)
