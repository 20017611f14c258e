"""The registry's background jobs, gathered from its folders: what Celery imports.

Each job looks at rows and does the next step; all may run twice.
"""

from typing import Any

from loraplex.adapters_registry.imports import tasks as imports
from loraplex.adapters_registry.pins import tasks as pins
from loraplex.adapters_registry.rollouts import tasks as rollouts
from loraplex.adapters_registry.tenants import tasks as tenants
from loraplex.adapters_registry.uploads import tasks as uploads
from loraplex.adapters_registry.versions import tasks as versions

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    **versions.BEAT_SCHEDULE,
    **uploads.BEAT_SCHEDULE,
    **imports.BEAT_SCHEDULE,
    **pins.BEAT_SCHEDULE,
    **rollouts.BEAT_SCHEDULE,
    **tenants.BEAT_SCHEDULE,
}
