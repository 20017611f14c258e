"""What a question about usage means: buckets of a page, the filter, the ledger's conditions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.versions.labels import ids_of
from loraplex.api.services import Services
from loraplex.api.usage_schemas import Period, UsageExportParameters
from loraplex.platform.database.pages import InvalidCursor
from loraplex.platform.metering.buckets import BucketWidth
from loraplex.platform.metering.errors import InvalidPeriod
from loraplex.platform.metering.rollups import minutes_surely_kept_from
from loraplex.platform.metering.usage import Group, UsageFilter, UsageQuery

EXPORTED_BUCKETS = {
    BucketWidth.MINUTE: 31 * 1440,
    BucketWidth.HOUR: 366 * 24,
    BucketWidth.DAY: 3660,
}
"""A month by the minute, a year by the hour, ten years by the day."""


@dataclass(frozen=True, slots=True)
class BucketPage:
    """The buckets of one page of a period, which begins and ends with a bucket."""

    width: BucketWidth
    period_start: datetime
    period_end: datetime
    start: datetime
    end: datetime

    @property
    def next_cursor(self) -> str | None:
        return None if self.end >= self.period_end else f"{self.end:%Y%m%dT%H%M}"

    def buckets(self) -> list[datetime]:
        """The start of each."""
        count = (self.end - self.start) // self.width.length
        return [self.start + number * self.width.length for number in range(count)]


def page_of_buckets(
    period: Period,
    width: BucketWidth,
    now: datetime,
    limit: int | None = None,
    cursor: str | None = None,
) -> BucketPage:
    """Without an end up to now, without a start as many as fit on a page.

    Raises InvalidPeriod for one that is not of whole buckets, InvalidCursor for a cursor of none.
    """
    if limit is not None and limit > width.max_buckets:
        raise InvalidPeriod(
            f"A page has at most {width.max_buckets} buckets of {width}, not {limit}.",
            field="limit",
            rule=f"at most {width.max_buckets}",
            value=limit,
        )
    end = width.end(now) if period.end is None else whole("end", period.end, width)
    default = end - width.max_buckets * width.length
    start = default if period.start is None else whole("start", period.start, width)
    if end <= start:
        raise InvalidPeriod("`end` should be after `start`.", field="end", rule="after start")
    first = start if cursor is None else cursor_moment(cursor, width)
    if cursor is not None and not start <= first < end:
        raise InvalidCursor
    last = min(end, first + (limit or width.max_buckets) * width.length)
    return BucketPage(width, start, end, first, last)


def whole_period(period: Period, width: BucketWidth, now: datetime) -> BucketPage:
    """The period as one page, for an export. Raises InvalidPeriod for too long a one as well."""
    page = page_of_buckets(period, width, now)
    most = EXPORTED_BUCKETS[width]
    if page.period_end - page.period_start > most * width.length:
        raise InvalidPeriod(
            f"An export has at most {most} buckets of {width}: export a shorter period.",
            field="start",
            rule=f"at most {most} buckets",
        )
    return replace(page, end=page.period_end)


def whole(field: str, moment: datetime, width: BucketWidth) -> datetime:
    utc = moment.astimezone(UTC)
    if width.begin(utc) != utc:
        raise InvalidPeriod(
            f"`{field}` should be the start of a bucket of {width} in UTC.",
            field=field,
            rule=f"a whole {width.unit} in UTC",
        )
    return utc


def cursor_moment(cursor: str, width: BucketWidth) -> datetime:
    try:
        moment = datetime.strptime(cursor, "%Y%m%dT%H%M").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidCursor from None
    if width.begin(moment) != moment:
        raise InvalidCursor
    return moment


async def usage_query(
    session: AsyncSession,
    services: Services,
    wanted: UsageExportParameters,
    page: BucketPage,
    tenant_ids: Sequence[UUID] | None,
) -> UsageQuery:
    """The page's question; `tenant_ids` says of whom, None of everybody."""
    now, kept_days = datetime.now(UTC), services.settings.usage_minutes_kept_days
    return UsageQuery(
        start=page.start,
        end=page.end,
        width=page.width,
        wanted=await filter_of(session, wanted, tenant_ids),
        minutes_from=minutes_surely_kept_from(now, kept_days),
        groups=[Group(name) for name in wanted.group_by],
    )


async def filter_of(
    session: AsyncSession, period: Period, tenant_ids: Sequence[UUID] | None
) -> UsageFilter:
    """Adapters by their names; a name that none has leaves nothing."""
    adapters = await ids_of(session, period.adapter, tenant_ids) if period.adapter else None
    return UsageFilter(
        tenant_ids=tenant_ids,
        api_key_ids=period.api_key_id or None,
        member_ids=period.member_id or None,
        base_models=period.model or None,
        adapter_ids=adapters,
        adapter_versions=period.version or None,
    )
