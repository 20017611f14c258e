"""Keeps roll-ups and the storage bill up to date, and looks whether all of it agrees."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy.exc import OperationalError
from structlog import get_logger

from loraplex.platform.jobs import JobContext, job
from loraplex.platform.metering.checks import check_old, check_recent
from loraplex.platform.metering.rollups import (
    BATCH_ROWS,
    add_arrivals,
    forget_minutes,
    minutes_kept_from,
)
from loraplex.platform.metering.storage import bill_next_hour

ROLL_UP_SECONDS = 10.0
BILL_SECONDS = 60.0
FORGET_SECONDS = 3600.0
CHECK_SECONDS = 300.0
CHECK_OLD_SECONDS = 3600.0
CHECK_OLD_SOFT_LIMIT_SECONDS = 1200

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    name: {"task": task, "schedule": seconds, "options": {"expires": seconds}}
    for name, task, seconds in (
        ("roll-up-usage", "loraplex.roll_up_usage", ROLL_UP_SECONDS),
        ("bill-storage", "loraplex.bill_storage", BILL_SECONDS),
        ("forget-usage-minutes", "loraplex.forget_usage_minutes", FORGET_SECONDS),
        ("check-invariants", "loraplex.check_invariants", CHECK_SECONDS),
        ("check-old-invariants", "loraplex.check_old_invariants", CHECK_OLD_SECONDS),
    )
}

log = get_logger(__name__)


@job("loraplex.roll_up_usage")
async def roll_up_usage(context: JobContext) -> None:
    """Add to the roll-ups what was settled since the last time."""
    minutes_from = minutes_kept_from(datetime.now(UTC), context.settings.usage_minutes_kept_days)
    while True:
        async with context.database.unit_of_work() as session:
            if await add_arrivals(session, minutes_from) < BATCH_ROWS:
                return


@job("loraplex.bill_storage")
async def bill_storage(context: JobContext) -> None:
    """Bill the storage of each hour that has ended since the last time."""
    try:
        while True:
            async with context.database.unit_of_work() as session:
                if await bill_next_hour(session, datetime.now(UTC)) is None:
                    return
    except OperationalError as error:
        log.warning("storage_not_billed", error=type(error.orig).__name__)


@job("loraplex.forget_usage_minutes")
async def forget_usage_minutes(context: JobContext) -> None:
    """Delete roll-ups by minute that are kept no longer."""
    minutes_from = minutes_kept_from(datetime.now(UTC), context.settings.usage_minutes_kept_days)
    async with context.database.unit_of_work() as session:
        await forget_minutes(session, minutes_from)


@job("loraplex.check_invariants")
async def check_invariants(context: JobContext) -> None:
    """Compare the ledger of today and yesterday with what is derived from it, and tell."""
    await check_recent(context.database, context.settings.usage_minutes_kept_days)


@job("loraplex.check_old_invariants", soft_limit_seconds=CHECK_OLD_SOFT_LIMIT_SECONDS)
async def check_old_invariants(context: JobContext) -> None:
    """Compare all of the ledger before yesterday, once a day."""
    await check_old(context.database, context.settings.usage_minutes_kept_days)
