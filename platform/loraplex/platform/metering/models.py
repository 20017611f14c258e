"""The ledger, one immutable row a request; and the prices that its rows were billed by."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
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
