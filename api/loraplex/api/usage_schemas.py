"""Usage on the wire: what may be asked, and what is answered."""

from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from loraplex.api.schemas import WireModel
from loraplex.platform.database.pages import DEFAULT_LIMIT, MAX_CURSOR_CHARACTERS, MAX_LIMIT
from loraplex.platform.metering.buckets import BucketWidth

EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
MAX_VALUES = 100

Moment = Annotated[AwareDatetime, Field(ge=EARLIEST, le=LATEST)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00]+$")]
Names = Annotated[list[Name], Field(max_length=MAX_VALUES)]
Ids = Annotated[list[UUID], Field(max_length=MAX_VALUES)]
Versions = Annotated[list[Annotated[int, Field(ge=1, lt=2**31)]], Field(max_length=MAX_VALUES)]
Cursor = Annotated[str, StringConstraints(max_length=MAX_CURSOR_CHARACTERS)]
GroupName = Literal["key", "member", "model", "adapter", "version"]
AdminGroupName = Literal["tenant", "key", "member", "model", "adapter", "version"]


class Period(BaseModel):
    """Which requests: settled in a half-open period, and with one of the values of each filter."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    start: Moment | None = None
    """RFC 3339, inclusive."""
    end: Moment | None = None
    """RFC 3339, exclusive."""
    api_key_id: Ids = []
    member_id: Ids = []
    model: Names = []
    """Base models."""
    adapter: Names = []
    """Names of adapters; of deleted ones, too."""
    version: Versions = []


class UsageExportParameters(Period):
    """Usage in buckets. `start` and `end` are starts of buckets, in UTC."""

    bucket_width: BucketWidth = BucketWidth.DAY
    group_by: Annotated[list[GroupName], Field(max_length=5)] = []


class UsageParameters(UsageExportParameters):
    limit: Annotated[int, Field(ge=1, le=1440)] | None = None
    """Buckets on a page: at most 1440 of 1m, 168 of 1h, 31 of 1d, which are also the defaults."""
    cursor: Cursor | None = None
    """`next_cursor` of the page before."""


class AdminUsageParameters(UsageParameters):
    group_by: Annotated[list[AdminGroupName], Field(max_length=6)] = []  # type: ignore[assignment]
    tenant: Names = []
    """Names of tenants."""


class RequestsExportParameters(Period):
    """Requests one by one."""


class RequestsParameters(Period):
    """Requests one by one, the newest first."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT
    cursor: Cursor | None = None
    """`next_cursor` of the page before."""


class Tokens(WireModel):
    """Sums. `prompt_tokens` are `uncached_tokens` and `cached_tokens` together."""

    requests: int
    prompt_tokens: int
    uncached_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_micros: int
    """Millionths of the currency."""


class UsageResult(Tokens):
    """What one group used; of what it is not grouped by, nothing is said."""

    api_key_id: UUID | None = None
    member_id: UUID | None = None
    model: str | None = None
    """The base model."""
    adapter_id: UUID | None = None
    adapter: str | None = None
    """The adapter's name, until it is purged."""
    version: int | None = None


class StorageUsage(WireModel):
    """Adapters' bytes times seconds, of the hours that are billed."""

    byte_seconds: int
    cost_micros: int


class UsageBucket(WireModel):
    """A half-open period. Without requests it has no results."""

    start: datetime
    end: datetime
    results: list[UsageResult]
    storage: StorageUsage | None
    """Known by the hour and of no key: None by the minute, and where there are filters."""


class UsageTotal(Tokens):
    """What the buckets on this page add up to."""

    storage: StorageUsage | None


class Usage(WireModel):
    bucket_width: BucketWidth
    start: datetime
    end: datetime
    group_by: list[GroupName]
    currency: str
    """ISO 4217; XXX while everything is free."""
    data: list[UsageBucket]
    total: UsageTotal
    next_cursor: str | None


class AdminUsageResult(UsageResult):
    tenant_id: UUID | None = None
    tenant: str | None = None


class AdminStorageUsage(StorageUsage):
    tenant_id: UUID | None = None
    tenant: str | None = None


class AdminUsageBucket(WireModel):
    """A half-open period of all tenants, or of those asked for."""

    start: datetime
    end: datetime
    results: list[AdminUsageResult]
    storage: list[AdminStorageUsage]
    """By tenant where results are; empty by the minute, and where there are other filters."""


class AdminUsage(WireModel):
    bucket_width: BucketWidth
    start: datetime
    end: datetime
    group_by: list[AdminGroupName]
    currency: str
    data: list[AdminUsageBucket]
    total: UsageTotal
    next_cursor: str | None


class SettledRequest(WireModel):
    """One row of the ledger. It is written once and never changed."""

    request_id: str
    admitted_at: datetime
    settled_at: datetime
    """The moment that says in which bucket it counts."""
    api_key_id: UUID | None
    member_id: UUID | None
    model: str
    """As the client asked for it."""
    base_model: str | None
    adapter_id: UUID | None
    adapter: str | None
    version: int | None
    adapter_digest: str | None
    prompt_tokens: int
    uncached_tokens: int
    cached_tokens: int
    output_tokens: int
    price_id: UUID
    cost_micros: int
    outcome: str
    error_code: str | None
    queue_ms: int | None
    ttft_ms: int | None
    duration_ms: int | None
    settled_by: str


class SettledRequestList(WireModel):
    data: list[SettledRequest]
    next_cursor: str | None
