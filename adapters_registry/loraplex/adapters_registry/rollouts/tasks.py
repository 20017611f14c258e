"""The judgement of rollouts as a background job."""

from typing import Any

from loraplex.adapters_registry.rollouts.judging import judge_rollouts
from loraplex.platform.jobs import JobContext, job

JUDGE_ROLLOUTS = "loraplex.adapters_registry.judge_rollouts"
JUDGE_SECONDS = 5.0

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "judge-rollouts": {
        "task": JUDGE_ROLLOUTS,
        "schedule": JUDGE_SECONDS,
        "options": {"expires": JUDGE_SECONDS},
    },
}


@job(JUDGE_ROLLOUTS)
async def judge_running_rollouts(context: JobContext) -> None:
    """Roll back the rollouts whose candidate serves worse than its owner allows."""
    await judge_rollouts(context.database)
