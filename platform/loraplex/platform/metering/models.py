"""The ledger, its prices and roll-ups, and what tenants store."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Table,
    Uuid,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created
from loraplex.platform.metering.prices import FREE_PRICE_ID


class PriceRow(Base, Created):
    """What tokens and storage cost from a moment on; never changed, followed by a newer one.

    Without a tenant it is everybody's, without a base model every model's. Storage belongs to no
    model, so only those without one price it.
    """

    __tablename__ = "prices"
    __table_args__ = (
        Index(
            "prices_moment_idx",
            "tenant_id",
            "base_model",
            "effective_from",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, server_default=func.gen_random_uuid())
    tenant_id: Mapped[UUID | None] = mapped_column(ForeignKey("tenants.id"))
    base_model: Mapped[str | None]
    input_micros_per_million: Mapped[int] = mapped_column(BigInteger)
    cached_input_micros_per_million: Mapped[int] = mapped_column(BigInteger)
    output_micros_per_million: Mapped[int] = mapped_column(BigInteger)
    storage_micros_per_gib_month: Mapped[int | None] = mapped_column(BigInteger)
    currency: Mapped[str]
    effective_from: Mapped[datetime]


class LedgerEntry(Base, Created):
    """What one request used. (tenant, request) is unique, so settling twice changes nothing.

    The adapter, the member and the price are named by values, not by reference: the row outlives
    the first two, and prices never go. `prompt_tokens` include `cached_tokens`; `model` is what
    the client asked for, `base_model` what served it.
    """

    __tablename__ = "ledger"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "api_key_id"], ["api_keys.tenant_id", "api_keys.id"]),
        Index(
            "ledger_adapter_id_idx",
            "adapter_id",
            "created_at",
            postgresql_where=text("adapter_id IS NOT NULL"),
        ),
        Index(
            "ledger_newest_idx",
            "admitted_at",
            postgresql_where=text("adapter_digest IS NOT NULL"),
        ),
        Index("ledger_settled_idx", "tenant_id", "created_at", "request_id"),
        Index("ledger_created_at_idx", "created_at", postgresql_using="brin"),
    )

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    request_id: Mapped[str] = mapped_column(primary_key=True)
    api_key_id: Mapped[UUID | None]
    member_id: Mapped[UUID | None]
    model: Mapped[str]
    base_model: Mapped[str | None]
    adapter_digest: Mapped[str | None]
    adapter_id: Mapped[UUID | None]
    adapter_version: Mapped[int | None]
    prompt_tokens: Mapped[int]
    cached_tokens: Mapped[int]
    output_tokens: Mapped[int]
    price_id: Mapped[UUID] = mapped_column(server_default=text(f"'{FREE_PRICE_ID}'::uuid"))
    cost_micros: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    outcome: Mapped[str]
    error_code: Mapped[str | None]
    worker_id: Mapped[str | None]
    queue_ms: Mapped[int | None] = mapped_column(BigInteger)
    ttft_ms: Mapped[int | None] = mapped_column(BigInteger)
    duration_ms: Mapped[int | None] = mapped_column(BigInteger)
    settled_by: Mapped[str] = mapped_column(server_default=text("'gateway'"))
    admitted_at: Mapped[datetime]


ROLLUP_KEYS = ("api_key_id", "member_id", "base_model", "adapter_id", "adapter_version")
COUNTED = ("prompt_tokens", "cached_tokens", "output_tokens", "cost_micros")
"""What of a ledger row is summed up."""


class LedgerArrival(Base):
    """A row of the ledger that the roll-ups do not have yet; a trigger on the ledger writes it."""

    __tablename__ = "ledger_arrivals"

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    request_id: Mapped[str] = mapped_column(primary_key=True)


USAGE_ROLLUPS = Table(
    "usage_rollups",
    Base.metadata,
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("width", String, nullable=False),
    Column("bucket_start", DateTime(timezone=True), nullable=False),
    Column("api_key_id", Uuid),
    Column("member_id", Uuid),
    Column("base_model", String),
    Column("adapter_id", Uuid),
    Column("adapter_version", Integer),
    Column("requests", BigInteger, nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in COUNTED),
    Index(
        "usage_rollups_bucket_idx",
        "tenant_id",
        "width",
        "bucket_start",
        *ROLLUP_KEYS,
        unique=True,
        postgresql_nulls_not_distinct=True,
    ),
    Index("usage_rollups_bucket_start_idx", "width", "bucket_start"),
)
"""The ledger's rows of one bucket that agree in all of ROLLUP_KEYS, summed up.

A bucket is half-open, in UTC, and a row belongs to the one in which it was settled. Keys may be
NULL, so there is a unique index in place of a primary key, and no class.
"""


class StoredBlob(Base):
    """How long a tenant stored some bytes, half-open; triggers on `blobs` write it."""

    __tablename__ = "stored_blobs"
    __table_args__ = (
        Index(
            "stored_blobs_open_idx",
            "tenant_id",
            "digest",
            unique=True,
            postgresql_where=text("stored_until IS NULL"),
        ),
    )

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    stored_from: Mapped[datetime] = mapped_column(primary_key=True)
    stored_until: Mapped[datetime | None] = mapped_column(index=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)


class StorageHour(Base, Created):
    """What a tenant stored in one hour of UTC, and its cost: the ledger's sibling."""

    __tablename__ = "storage_hours"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    hour_start: Mapped[datetime] = mapped_column(primary_key=True, index=True)
    byte_seconds: Mapped[int] = mapped_column(BigInteger)
    price_id: Mapped[UUID]
    cost_micros: Mapped[int] = mapped_column(BigInteger)


class BilledStorage(Base):
    """One row: the end of the last hour whose storage is billed, of every tenant."""

    __tablename__ = "billed_storage"

    billed_until: Mapped[datetime] = mapped_column(primary_key=True)


class InvariantCheck(Base):
    """How often an invariant did not hold in what lies before yesterday, at the last look."""

    __tablename__ = "invariant_checks"

    invariant: Mapped[str] = mapped_column(primary_key=True)
    violations: Mapped[int] = mapped_column(BigInteger)
    checked_at: Mapped[datetime] = mapped_column(server_default=func.now())
