"""Limits of a tenant's subjects, what was used of them, and what running requests hold."""

from datetime import date, datetime
from enum import StrEnum
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, ForeignKey, ForeignKeyConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created

SOFT_BUDGET_PERCENT = 80
"""Which part of a budget is spent when the tenant is told, unless somebody says otherwise."""


class Subject(StrEnum):
    """What a limit is for, in the order in which admission locks and asks."""

    TENANT = "tenant"
    MODEL = "model"
    """By the name of the adapter, whatever its version, or of the base."""
    MEMBER = "member"
    KEY = "key"


class Limits(Base):
    """What one subject may use; None is no limit. A tenant's has the subject id ''.

    Rates are for any 60 seconds, budgets for a day and a month in UTC.
    """

    __tablename__ = "limits"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    subject_id: Mapped[str] = mapped_column(primary_key=True)
    requests_per_minute: Mapped[int | None] = mapped_column(BigInteger)
    tokens_per_minute: Mapped[int | None] = mapped_column(BigInteger)
    prompt_tokens_per_minute: Mapped[int | None] = mapped_column(BigInteger)
    output_tokens_per_minute: Mapped[int | None] = mapped_column(BigInteger)
    max_concurrent_requests: Mapped[int | None] = mapped_column(BigInteger)
    daily_budget_micros: Mapped[int | None] = mapped_column(BigInteger)
    monthly_budget_micros: Mapped[int | None] = mapped_column(BigInteger)
    soft_budget_percent: Mapped[int] = mapped_column(default=SOFT_BUDGET_PERCENT)
    max_adapters: Mapped[int | None] = mapped_column(BigInteger)
    max_storage_bytes: Mapped[int | None] = mapped_column(BigInteger)
    max_open_uploads: Mapped[int | None] = mapped_column(BigInteger)
    max_pinned_adapters: Mapped[int | None] = mapped_column(BigInteger)
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


def _of_limits() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["tenant_id", "subject", "subject_id"],
        ["limits.tenant_id", "limits.subject", "limits.subject_id"],
        ondelete="CASCADE",
    )


def _ring() -> Mapped[list[int]]:
    return mapped_column(
        ARRAY(BigInteger), server_default=text("array_fill((0)::bigint, ARRAY[61])")
    )


class LimitCounter(Base):
    """What one subject used: by second in the last minute, in money today and this month.

    The functions of migration 0020 alone write here.
    """

    __tablename__ = "limit_counters"
    __table_args__ = (_of_limits(),)

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    subject_id: Mapped[str] = mapped_column(primary_key=True)
    newest_second: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    requests: Mapped[list[int]] = _ring()
    prompt_tokens: Mapped[list[int]] = _ring()
    output_tokens: Mapped[list[int]] = _ring()
    all_requests: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    all_prompt_tokens: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    all_output_tokens: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    day: Mapped[date] = mapped_column(server_default=text("'-infinity'::date"))
    spent_day_micros: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    month: Mapped[date] = mapped_column(server_default=text("'-infinity'::date"))
    spent_month_micros: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))


class LimitSettlement(Base):
    """What a settled request gave back or cost, until the subject's counter takes it in."""

    __tablename__ = "limit_settlements"

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    subject_id: Mapped[str] = mapped_column(primary_key=True)
    request_id: Mapped[str] = mapped_column(primary_key=True)
    admitted_second: Mapped[int] = mapped_column(BigInteger)
    unused_prompt_tokens: Mapped[int] = mapped_column(BigInteger)
    unused_output_tokens: Mapped[int] = mapped_column(BigInteger)
    cost_micros: Mapped[int] = mapped_column(BigInteger)
    settled_at: Mapped[datetime]


class BudgetAlert(Base, Created):
    """That a tenant was told of a budget, once a period."""

    __tablename__ = "budget_alerts"
    __table_args__ = (_of_limits(),)

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    subject_id: Mapped[str] = mapped_column(primary_key=True)
    period: Mapped[str] = mapped_column(primary_key=True)
    period_start: Mapped[date] = mapped_column(primary_key=True)
    event: Mapped[str] = mapped_column(primary_key=True)


class Reservation(Base, Created):
    """One admitted request. A gateway renews it while the request runs; a dead one's lapses.

    It has all that a ledger row needs, so that anybody can settle it. `charged` is a bit for each
    subject whose rates it counts in, in the order of Subject.
    """

    __tablename__ = "reservations"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "api_key_id"], ["api_keys.tenant_id", "api_keys.id"]),
    )

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    request_id: Mapped[str] = mapped_column(primary_key=True)
    gateway_id: Mapped[str]
    api_key_id: Mapped[UUID | None]
    member_id: Mapped[UUID | None]
    model: Mapped[str | None]
    """What the client asked for."""
    model_name: Mapped[str | None]
    base_model: Mapped[str | None]
    adapter_digest: Mapped[str | None]
    adapter_id: Mapped[UUID | None]
    adapter_version: Mapped[int | None]
    weights_digest: Mapped[str | None]
    """The adapter's bytes that a worker may yet fetch: they stay while the request runs."""
    price_id: Mapped[UUID | None]
    prompt_tokens: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    max_output_tokens: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    hold_micros: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    charged: Mapped[int] = mapped_column(server_default=text("0"))
    sequences: Mapped[int | None]
    choices_per_prompt: Mapped[int | None]
    admitted_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime] = mapped_column(index=True)
    recovering_until: Mapped[datetime | None]
    """Set once it was seen lapsed; until then nobody looks at it again."""
