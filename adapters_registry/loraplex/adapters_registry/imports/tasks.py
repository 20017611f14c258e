"""Imports as background jobs. Each looks at rows and does the next step; all may run twice."""

from typing import Any
from uuid import UUID

from loraplex.adapters_registry.imports import lifecycle, turns
from loraplex.adapters_registry.imports.fetching import SourceFetcher
from loraplex.adapters_registry.imports.running import ImportRunner
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.platform.jobs import LONGEST_SOFT_LIMIT_SECONDS, JobContext, job
from loraplex.platform.outbound.client import OutboundClient
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.identity import TenantId

SWEEP_IMPORTS = "loraplex.adapters_registry.sweep_imports"
SWEEP_SECONDS = 5.0

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "sweep-imports": {
        "task": SWEEP_IMPORTS,
        "schedule": SWEEP_SECONDS,
        "options": {"expires": SWEEP_SECONDS},
    },
}


@job(turns.FETCH_IMPORT, soft_limit_seconds=LONGEST_SOFT_LIMIT_SECONDS)
async def fetch_import(context: JobContext, tenant_id: str, import_id: str) -> None:
    """Bring one queued import to completed or failed."""
    settings = context.settings
    async with OutboundClient.from_settings(settings) as client:
        runner = ImportRunner(
            database=context.database,
            store=ObjectStore.from_settings(settings),
            secrets=SecretKeys.from_settings(settings),
            fetcher=SourceFetcher(
                client=client,
                hub_url=settings.hub_url,
                seconds=settings.import_seconds,
                max_weights_bytes=settings.max_upload_bytes,
            ),
            scratch_dir=settings.data_dir / "imports",
            slots=settings.import_slots,
        )
        await runner.run(TenantId(UUID(tenant_id)), UUID(import_id))


@job(SWEEP_IMPORTS)
async def sweep_imports(context: JobContext) -> None:
    """Take imports back from workers that fell silent, and ask for those that wait too long."""
    async with context.database.unit_of_work() as session:
        await lifecycle.sweep(session, context.settings.import_slots)
