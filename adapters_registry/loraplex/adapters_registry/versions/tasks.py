"""Validation as background jobs. Each looks at rows and does the next step; all may run twice."""

from typing import Any
from uuid import UUID

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.validation import ValidationLimits
from loraplex.adapters_registry.versions import lifecycle
from loraplex.adapters_registry.versions.checking import VersionChecker
from loraplex.platform.jobs import JobContext, job
from loraplex.platform.tenancy.identity import TenantId

SWEEP_VERSIONS = "loraplex.adapters_registry.sweep_versions"
SWEEP_SECONDS = 5.0

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "sweep-versions": {
        "task": SWEEP_VERSIONS,
        "schedule": SWEEP_SECONDS,
        "options": {"expires": SWEEP_SECONDS},
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
    )
    await checker.check(TenantId(UUID(tenant_id)), UUID(version_id))


@job(SWEEP_VERSIONS)
async def sweep_versions(context: JobContext) -> None:
    """Ask again for the validation of versions that have waited past their deadline."""
    async with context.database.unit_of_work() as session:
        await lifecycle.sweep(session)
