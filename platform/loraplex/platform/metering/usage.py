"""What has been used, by buckets of time and groups: the roll-ups, and what they do not have yet.

One statement reads both in one snapshot, so the answer is the ledger's, to the last settled row.
Minutes that are no longer kept are summed up from the ledger itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    Select,
    cast,
    func,
    literal_column,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.metering.buckets import BucketWidth
from loraplex.platform.metering.errors import TooManyGroups
from loraplex.platform.metering.models import (
    COUNTED,
    USAGE_ROLLUPS,
    LedgerArrival,
    LedgerEntry,
    StorageHour,
)

MAX_RESULTS: Final = 20_000
"""Rows of one answer; who wants more filters, or asks for fewer buckets at a time."""
SUMS: Final = ("requests", *COUNTED)


class Group(StrEnum):
    """What usage may be told apart by. A version belongs to its adapter, and comes with it."""

    TENANT = "tenant"
    KEY = "key"
    MEMBER = "member"
    MODEL = "model"
    ADAPTER = "adapter"
    VERSION = "version"


COLUMNS_OF: Final[Mapping[Group, tuple[str, ...]]] = {
    Group.TENANT: ("tenant_id",),
    Group.KEY: ("api_key_id",),
    Group.MEMBER: ("member_id",),
    Group.MODEL: ("base_model",),
    Group.ADAPTER: ("adapter_id",),
    Group.VERSION: ("adapter_id", "adapter_version"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageFilter:
    """Which of the ledger's rows count: those that have one of the values of each that is given.

    `tenant_ids` None is every tenant, for operators alone; row security knows no such wish.
    """

    tenant_ids: Sequence[UUID] | None
    api_key_ids: Sequence[UUID] | None = None
    member_ids: Sequence[UUID] | None = None
    base_models: Sequence[str] | None = None
    adapter_ids: Sequence[UUID] | None = None
    adapter_versions: Sequence[int] | None = None

    @property
    def is_of_requests(self) -> bool:
        """Whether it asks for what only requests have, and storage has not."""
        return any(getattr(self, name) is not None for name in FILTERED if name != "tenant_ids")

    def conditions(self, columns: Any) -> list[ColumnElement[bool]]:
        """`columns` has the keys of the ledger and of the roll-ups."""
        return [
            getattr(columns, column).in_(values)
            for name, column in FILTERED.items()
            if (values := getattr(self, name)) is not None
        ]


FILTERED: Final = {
    "tenant_ids": "tenant_id",
    "api_key_ids": "api_key_id",
    "member_ids": "member_id",
    "base_models": "base_model",
    "adapter_ids": "adapter_id",
    "adapter_versions": "adapter_version",
}


@dataclass(frozen=True, slots=True)
class Used:
    """What the rows of one bucket and group add up to; `keys` has the group's columns."""

    bucket_start: datetime
    keys: Mapping[str, Any]
    requests: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_micros: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A tenant's storage in one bucket, of the hours that are billed."""

    bucket_start: datetime
    tenant_id: UUID | None
    byte_seconds: int
    cost_micros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """`start` and `end` are buckets' starts; minutes before `minutes_from` may not be kept."""

    start: datetime
    end: datetime
    width: BucketWidth
    wanted: UsageFilter
    minutes_from: datetime
    groups: Sequence[Group] = field(default_factory=tuple)

    @property
    def knows_storage(self) -> bool:
        """Storage is known by the hour, and of nothing that only requests have."""
        return self.width is not BucketWidth.MINUTE and not self.wanted.is_of_requests

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for g in self.groups for name in COLUMNS_OF[g]))


async def used(session: AsyncSession, query: UsageQuery) -> list[Used]:
    """Buckets in order, then groups; a bucket without a request has no row.

    Raises TooManyGroups, rather than leave any out.
    """
    source = union_all(*_sources(query)).subquery()
    keys = [source.c[name] for name in query.columns]
    sums = [cast(func.sum(source.c[name]), BigInteger).label(name) for name in SUMS]
    statement = (
        select(source.c.bucket_start, *keys, *sums)
        .group_by(source.c.bucket_start, *keys)
        .order_by(source.c.bucket_start, *(key.nulls_first() for key in keys))
        .limit(MAX_RESULTS + 1)
    )
    rows = (await session.execute(statement)).all()
    if len(rows) > MAX_RESULTS:
        raise TooManyGroups(MAX_RESULTS)
    return [_used(row, query.columns) for row in rows]


async def stored(session: AsyncSession, query: UsageQuery) -> list[Stored]:
    """By bucket, and by tenant if that is a group; nothing where it is not known."""
    if not query.knows_storage:
        return []
    bucket = func.date_trunc(query.width.unit, StorageHour.hour_start, "UTC").label("bucket_start")
    by_tenant = Group.TENANT in query.groups
    tenants = [StorageHour.tenant_id] if by_tenant else []
    statement = (
        select(
            bucket,
            cast(func.sum(StorageHour.byte_seconds), BigInteger),
            cast(func.sum(StorageHour.cost_micros), BigInteger),
            *tenants,
        )
        .where(
            StorageHour.hour_start >= query.start,
            StorageHour.hour_start < query.end,
            *query.wanted.conditions(StorageHour),
        )
        .group_by(bucket, *tenants)
        .order_by(bucket, *tenants)
    )
    rows = (await session.execute(statement)).all()
    return [Stored(row[0], row[3] if by_tenant else None, row[1], row[2]) for row in rows]


def _sources(query: UsageQuery) -> list[Select[Any]]:
    kept_from = query.start
    sources = []
    if query.width is BucketWidth.MINUTE and query.minutes_from > query.start:
        kept_from = min(query.minutes_from, query.end)
        sources.append(_summable(query, LedgerEntry, query.start, kept_from))
    table = USAGE_ROLLUPS.c
    rolled_up = select(
        table.bucket_start, *(table[name] for name in (*query.columns, *SUMS))
    ).where(
        table.width == query.width,
        table.bucket_start >= kept_from,
        table.bucket_start < query.end,
        *query.wanted.conditions(table),
    )
    return [*sources, rolled_up, _arrived(query, kept_from)]


def _summable(query: UsageQuery, rows: Any, start: datetime, end: datetime) -> Select[Any]:
    """The ledger's `rows` in the form of roll-ups."""
    bucket = func.date_trunc(query.width.unit, rows.created_at, "UTC")
    return select(
        bucket.label("bucket_start"),
        *(getattr(rows, name) for name in query.columns),
        literal_column("1", BigInteger).label("requests"),
        *(getattr(rows, name) for name in COUNTED),
    ).where(rows.created_at >= start, rows.created_at < end, *query.wanted.conditions(rows))


def _arrived(query: UsageQuery, start: datetime) -> Select[Any]:
    """What no roll-up has yet, each row found by its key alone.

    The limit stands between the planner and the idea of reading a month of the ledger instead.
    """
    tenant_ids = query.wanted.tenant_ids
    arrivals = select(LedgerArrival)
    if tenant_ids is not None:
        arrivals = arrivals.where(LedgerArrival.tenant_id.in_(tenant_ids))
    arrival = arrivals.subquery()
    by_key = (
        select(LedgerEntry)
        .where(
            LedgerEntry.tenant_id == arrival.c.tenant_id,
            LedgerEntry.request_id == arrival.c.request_id,
        )
        .limit(1)
        .lateral()
    )
    return _summable(query, by_key.c, start, query.end).select_from(arrival.join(by_key, true()))


def _used(row: Row[Any], columns: list[str]) -> Used:
    keys = dict(zip(columns, row[1 : 1 + len(columns)], strict=True))
    return Used(row[0], keys, *row[1 + len(columns) :])
