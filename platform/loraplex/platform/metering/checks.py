"""Looks at the invariants, and tells what does not hold: as a metric, and in the log.

Today and yesterday are looked at often. All before that is looked at once a day, and what was found
there stays part of the metric until the next look.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from structlog import get_logger

from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.buckets import EPOCH, BucketWidth
from loraplex.platform.metering.invariants import (
    INVARIANTS,
    Finding,
    Period,
    check_now,
    check_period,
)
from loraplex.platform.metering.models import InvariantCheck
from loraplex.platform.metering.rollups import minutes_surely_kept_from
from loraplex.platform.metrics import INVARIANT_VIOLATIONS

OLD_EVERY: Final = timedelta(days=1)
SLACK: Final = timedelta(days=1)
"""How far the database's clock may be ahead of this one."""

log = get_logger(__name__)


async def check_recent(
    database: Database, minutes_kept_days: int, now: datetime | None = None
) -> list[Finding]:
    """Look at today, yesterday and what has no past, on role `system`; sets the metric."""
    now = now or datetime.now(UTC)
    async with database.unit_of_work() as session:
        found = await check_period(session, recent(now, minutes_kept_days))
        found += await check_now(session)
        rows = await session.scalars(select(InvariantCheck))
        old = {row.invariant: row.violations for row in rows}
    tell(found)
    counts = {finding.invariant: finding.count for finding in found}
    for invariant in INVARIANTS:
        INVARIANT_VIOLATIONS.labels(invariant).set(counts[invariant] + old.get(invariant, 0))
    return found


async def check_old(
    database: Database, minutes_kept_days: int, now: datetime | None = None
) -> list[Finding]:
    """Look at everything before yesterday, unless somebody did so within a day."""
    now = now or datetime.now(UTC)
    period = Period(
        since=EPOCH,
        until=recent(now, minutes_kept_days).since,
        minutes_from=minutes_surely_kept_from(now, minutes_kept_days),
    )
    async with database.unit_of_work() as session:
        last = await session.scalar(select(func.min(InvariantCheck.checked_at)))
        if last is not None and last > now - OLD_EVERY:
            return []
        found = await check_period(session, period)
        for finding in found:
            values = {"violations": finding.count, "checked_at": now}
            await session.execute(
                insert(InvariantCheck)
                .values(invariant=finding.invariant, **values)
                .on_conflict_do_update(index_elements=[InvariantCheck.invariant], set_=values)
            )
    tell(found)
    return found


def recent(now: datetime, minutes_kept_days: int) -> Period:
    yesterday = BucketWidth.DAY.begin(now) - timedelta(days=1)
    return Period(
        since=yesterday,
        until=BucketWidth.DAY.end(now) + SLACK,
        minutes_from=minutes_surely_kept_from(now, minutes_kept_days),
    )


def everything(now: datetime, minutes_kept_days: int) -> Period:
    period = recent(now, minutes_kept_days)
    return Period(since=EPOCH, until=period.until, minutes_from=period.minutes_from)


def tell(found: Sequence[Finding]) -> None:
    for finding in found:
        for violation in finding.violations:
            log.error(
                "invariant_violated",
                invariant=finding.invariant,
                tenant_id=str(violation.tenant_id),
                place=violation.place,
                expected=violation.expected,
                found=violation.found,
                count=finding.count,
            )
