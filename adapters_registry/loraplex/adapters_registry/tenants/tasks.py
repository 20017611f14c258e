"""Exports and deletions of tenants as background jobs; a sweep asks again for those left lying."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, literal, select

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.tenants.deleting import BackupRuns, Deleter, purge_objects
from loraplex.adapters_registry.tenants.exporting import Exporter
from loraplex.platform.database.outbox import enqueue
from loraplex.platform.jobs import LONGEST_SOFT_LIMIT_SECONDS, JobContext, job
from loraplex.platform.lifecycle.models import ExportStatus, TenantDeletion, TenantExport
from loraplex.platform.lifecycle.service import DELETE_TENANT, EXPORT_TENANT, export_key
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.models import Tenant

SWEEP = "loraplex.adapters_registry.sweep_tenants"
SWEEP_SECONDS = 15.0
SECOND_LOOK = timedelta(hours=1)
"""Longer than anything that began before a deletion may still bring bytes."""

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "sweep-tenants": {
        "task": SWEEP,
        "schedule": SWEEP_SECONDS,
        "options": {"expires": SWEEP_SECONDS},
    },
}


@job(EXPORT_TENANT, soft_limit_seconds=LONGEST_SOFT_LIMIT_SECONDS)
async def export_tenant(context: JobContext, export_id: str) -> None:
    """Write one export's archive."""
    scratch_dir = Path(context.settings.data_dir) / "exports"
    store = ObjectStore.from_settings(context.settings)
    await Exporter(context.database, store, scratch_dir).export(UUID(export_id))


@job(DELETE_TENANT, soft_limit_seconds=LONGEST_SOFT_LIMIT_SECONDS)
async def delete_tenant(context: JobContext, tenant_id: str) -> None:
    """Remove what is left of a tenant that is being deleted."""
    store = ObjectStore.from_settings(context.settings)
    secrets = SecretKeys.from_settings(context.settings)
    await Deleter(context.database, store, secrets).delete(UUID(tenant_id))


@job(SWEEP)
async def sweep_tenants(context: JobContext) -> None:
    """Ask again for work whose lease has run out, and remove archives that have expired.

    Deleted tenants' part of the store is looked at once more for a while: an upload or an export
    that was refused at its end had put its bytes there already.
    """
    async with context.database.unit_of_work() as session:
        exports = select(TenantExport.id).where(
            TenantExport.status.in_([ExportStatus.QUEUED, ExportStatus.RUNNING]),
            TenantExport.deadline_at < func.now(),
        )
        for export_id in await session.scalars(exports):
            await enqueue(session, EXPORT_TENANT, {"export_id": str(export_id)})
        deletions = select(TenantDeletion.tenant_id).where(
            TenantDeletion.finished_at.is_(None), TenantDeletion.deadline_at < func.now()
        )
        for tenant_id in await session.scalars(deletions):
            await enqueue(session, DELETE_TENANT, {"tenant_id": str(tenant_id)})
        expired = (
            select(TenantExport.id, Tenant.namespace)
            .join(Tenant, Tenant.id == TenantExport.tenant_id)
            .where(TenantExport.expires_at < func.now())
        )
        gone = (await session.execute(expired)).all()
        lately = TenantDeletion.finished_at > func.now() - literal(SECOND_LOOK)
        namespaces = (await session.scalars(select(TenantDeletion.namespace).where(lately))).all()
    store = ObjectStore.from_settings(context.settings)
    with suppress(BackupRuns):
        for namespace in namespaces:
            await purge_objects(context.database, store, namespace)
    for export_id, namespace in gone:
        await asyncio.to_thread(store.delete, export_key(namespace, export_id))
        async with context.database.unit_of_work() as session:
            await session.execute(delete(TenantExport).where(TenantExport.id == export_id))
