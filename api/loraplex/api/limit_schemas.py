"""Limits and budgets on the wire, of tenants and operators alike."""

from typing import Annotated, Literal

from pydantic import Field

from loraplex.api.schemas import WireModel
from loraplex.platform.admission.limits import LimitsInUse
from loraplex.platform.admission.models import SOFT_BUDGET_PERCENT, Limits

MOST = 2**53 - 1
"""Up to here every JSON reader has the same integers."""
Limit = Annotated[int, Field(ge=0, le=MOST)] | None


class RateLimits(WireModel):
    """For any 60 seconds; absent is no limit."""

    requests_per_minute: Limit = None
    tokens_per_minute: Limit = None
    """Of prompts and answers together."""
    prompt_tokens_per_minute: Limit = None
    output_tokens_per_minute: Limit = None
    max_concurrent_requests: Limit = None


class Budgets(WireModel):
    """What may be spent in a day and in a calendar month, both in UTC; absent is no limit."""

    daily_budget_micros: Limit = None
    """Millionths of the prices' currency."""
    monthly_budget_micros: Limit = None
    soft_budget_percent: Annotated[int, Field(ge=1, le=100)] = SOFT_BUDGET_PERCENT
    """Of a budget: when that much is spent, `budget.soft_exceeded` is sent once a period."""


class SubjectLimits(RateLimits, Budgets):
    """What one key, member or model may use, within the tenant's own limits."""


class TenantLimits(RateLimits):
    """What a tenant may use and keep; absent is no limit."""

    max_adapters: Limit = None
    max_storage_bytes: Limit = None
    max_open_uploads: Limit = None
    max_pinned_adapters: Limit = None


class Use(WireModel):
    """What is used now. Rates are counted for those subjects that have any."""

    requests: int
    tokens: int
    prompt_tokens: int
    output_tokens: int
    running: int
    reserved_micros: int
    """What running requests may yet cost."""
    spent_day_micros: int
    """Counted where there is a budget."""
    spent_month_micros: int


class EffectiveLimits(WireModel):
    """What binds: the lower of the subject's own and the tenant's."""

    requests_per_minute: int | None
    tokens_per_minute: int | None
    prompt_tokens_per_minute: int | None
    output_tokens_per_minute: int | None
    max_concurrent_requests: int | None
    daily_budget_micros: int | None
    monthly_budget_micros: int | None


class LimitsUsed(WireModel):
    """One subject's own limits, those in force, and what is used of them."""

    subject: Literal["tenant", "model", "member", "key"]
    id: str | None
    """A model's name, a member's or key's id; null of the tenant."""
    limits: SubjectLimits
    quotas: TenantLimits | None
    """What the tenant may keep; null of every other subject."""
    effective: EffectiveLimits
    in_use: Use


class LimitsList(WireModel):
    data: list[LimitsUsed]
    next_cursor: str | None


def limits_used(one: LimitsInUse) -> LimitsUsed:
    row = one.limits
    return LimitsUsed(
        subject=row.subject,  # type: ignore[arg-type]  # the table has a check of the same four
        id=row.subject_id or None,
        limits=subject_limits(row),
        quotas=None if row.subject_id else tenant_limits(row),
        effective=EffectiveLimits(**one.effective),
        in_use=Use(**one.in_use),
    )


def subject_limits(row: Limits) -> SubjectLimits:
    return SubjectLimits(**{name: getattr(row, name) for name in SubjectLimits.model_fields})


def tenant_limits(row: Limits) -> TenantLimits:
    return TenantLimits(**{name: getattr(row, name) for name in TenantLimits.model_fields})


def budgets(row: Limits) -> Budgets:
    return Budgets(**{name: getattr(row, name) for name in Budgets.model_fields})
