"""Validation, purging and collection as background jobs.

Each looks at rows and does the next step; all may run twice.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.validation import ValidationLimits
from loraplex.adapters_registry.versions import lifecycle, removal
from loraplex.adapters_registry.versions.checking import VersionChecker
from loraplex.adapters_registry.versions.collection import Collector
from loraplex.platform.jobs import JobContext, job
from loraplex.platform.tenancy.identity import TenantId

SWEEP_VERSIONS = "loraplex.adapters_registry.sweep_versions"
SWEEP_SECONDS = 5.0
PURGE_DELETED = "loraplex.adapters_registry.purge_deleted"
COLLECT_BLOBS = "loraplex.adapters_registry.collect_blobs"
COLLECT_SECONDS = 300.0

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "sweep-versions": {
        "task": SWEEP_VERSIONS,
        "schedule": SWEEP_SECONDS,
        "options": {"expires": SWEEP_SECONDS},
    },
    "purge-deleted": {
        "task": PURGE_DELETED,
        "schedule": COLLECT_SECONDS,
        "options": {"expires": COLLECT_SECONDS},
    },
    "collect-blobs": {
        "task": COLLECT_BLOBS,
        "schedule": COLLECT_SECONDS,
        "options": {"expires": COLLECT_SECONDS},
    },
}


@job(lifecycle.VALIDATE_VERSION)
async def validate_version(context: JobContext, tenant_id: str, version_id: str) -> None:
    """Bring one uploaded version to ready or rejected."""
    settings = context.settings
    checker = VersionChecker(
        database=context.database,
        store=ObjectStore.from_settings(settings),
        limits=ValidationLimits(
            seconds=settings.validation_seconds, memory_bytes=settings.validation_memory_bytes
        ),
        scratch_dir=settings.data_dir / "checks",
    )
    await checker.check(TenantId(UUID(tenant_id)), UUID(version_id))


@job(SWEEP_VERSIONS)
async def sweep_versions(context: JobContext) -> None:
    """Ask again for the validation of versions that have waited past their deadline."""
    async with context.database.unit_of_work() as session:
        await lifecycle.sweep(session)


@job(PURGE_DELETED)
async def purge_deleted(context: JobContext) -> None:
    """Forget adapters and versions whose deletion can no longer be undone."""
    kept = timedelta(seconds=context.settings.deleted_kept_seconds)
    async with context.database.unit_of_work() as session:
        await removal.purge(session, kept)


@job(COLLECT_BLOBS)
async def collect_blobs(context: JobContext) -> None:
    """Delete bytes that nothing refers to any more."""
    grace = timedelta(seconds=context.settings.blob_grace_seconds)
    store = ObjectStore.from_settings(context.settings)
    await Collector(context.database, store, grace).collect()
