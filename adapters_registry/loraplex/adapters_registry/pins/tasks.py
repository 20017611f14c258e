"""Pins and demand as a background job, which writes anew what workers are to have near."""

import asyncio
from typing import Any

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.pins.demand import want_adapters
from loraplex.adapters_registry.pins.service import WANT_ADAPTERS
from loraplex.platform.jobs import JobContext, job

REFRESH_SECONDS = 60.0
PRESIGNED_SECONDS = 12 * 3600
"""A worker asks again only when what is wanted has changed."""

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "want-adapters": {
        "task": WANT_ADAPTERS,
        "schedule": REFRESH_SECONDS,
        "options": {"expires": REFRESH_SECONDS},
    },
}


@job(WANT_ADAPTERS)
async def refresh(context: JobContext) -> None:
    """Workers hear of it with the next renewal of their leases, within seconds."""
    store = await asyncio.to_thread(ObjectStore.from_settings, context.settings)
    async with context.database.unit_of_work() as session:
        await want_adapters(session, lambda key: store.presign_get(key, PRESIGNED_SECONDS))
