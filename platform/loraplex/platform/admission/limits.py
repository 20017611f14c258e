"""Sets limits and tells what is used of them. Commits nothing: the caller does.

A tenant's managers set those of its keys and members, never above the tenant's own; operators set
the tenant's, and those of its models. Whatever is set is in force from the next request on:
gateways keep no copy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.admission.errors import LimitAboveTenants
from loraplex.platform.admission.models import Limits, Subject
from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.tenancy.identity import TenantId

RATES: Final = (
    "requests_per_minute",
    "tokens_per_minute",
    "prompt_tokens_per_minute",
    "output_tokens_per_minute",
    "max_concurrent_requests",
)
MONEY: Final = ("daily_budget_micros", "monthly_budget_micros")
BUDGETS: Final = (*MONEY, "soft_budget_percent")
QUOTAS: Final = ("max_adapters", "max_storage_bytes", "max_open_uploads", "max_pinned_adapters")
"""A tenant's alone: what it stores belongs to none of its keys and members."""
BY_SUBJECT: Final = Keyset("limits", Limits.subject, Limits.subject_id)

IN_USE = text(
    """
    SELECT subject, subject_id, requests, prompt_tokens + output_tokens AS tokens, prompt_tokens,
        output_tokens, running, reserved_micros, spent_day_micros, spent_month_micros
    FROM gateway.limits_in_use(:tenant, :subjects, :ids, gateway.clock())
    """
)
# No settlement is under way, neither counted by the ledger nor seen by a later one.
HOLD_SETTLEMENTS = text("SELECT pg_advisory_xact_lock(hashtextextended('limits ' || :tenant, 0))")
RECOUNT = text("SELECT gateway.recount_spending(:tenant, :subject, :subject_id)")


@dataclass(frozen=True, slots=True)
class LimitsInUse:
    """One subject's limits, what binds it in fact, and what is used of that now."""

    limits: Limits
    effective: Mapping[str, int | None]
    """The lower of the subject's own and the tenant's."""
    in_use: Mapping[str, int]


async def limits_of(session: AsyncSession, tenant_id: TenantId) -> Limits:
    """The tenant's own limits."""
    return await session.get_one(Limits, (tenant_id, Subject.TENANT.value, ""))


async def find_limits(
    session: AsyncSession, tenant_id: TenantId, subject: Subject, subject_id: str
) -> Limits:
    """One subject's limits; where none were set, a row of no limits that is not stored."""
    found = await session.get(Limits, (tenant_id, subject.value, subject_id))
    return found or Limits(
        tenant_id=tenant_id, subject=subject.value, subject_id=subject_id, soft_budget_percent=80
    )


async def page_of_limits(
    session: AsyncSession, tenant_id: TenantId, wanted: PageRequest
) -> Page[LimitsInUse]:
    """Every subject that has limits, with what is used of them; raises InvalidCursor."""
    mine = select(Limits).where(Limits.tenant_id == tenant_id)
    page = (await BY_SUBJECT.page(session, mine, wanted)).map(lambda row: row[0])
    tenants = await limits_of(session, tenant_id)
    places = {
        "subjects": [one.subject for one in page.items],
        "ids": [one.subject_id for one in page.items],
    }
    found = await session.execute(IN_USE, {"tenant": tenant_id, **places})
    rows = [dict(row) for row in found.mappings()]
    in_use = {(row.pop("subject"), row.pop("subject_id")): row for row in rows}
    return page.map(
        lambda one: LimitsInUse(one, effective(one, tenants), in_use[one.subject, one.subject_id])
    )


def effective(limits: Limits, tenants: Limits) -> dict[str, int | None]:
    """What binds a subject: the lower of its own limit and the tenant's, where there are any."""
    bound: dict[str, int | None] = {}
    for name in (*RATES, *MONEY):
        both = (getattr(limits, name), getattr(tenants, name))
        bound[name] = min((value for value in both if value is not None), default=None)
    return bound


async def change_limits(
    session: AsyncSession,
    actor: Actor,
    tenant_id: TenantId,
    subject: Subject,
    subject_id: str,
    values: Mapping[str, int | None],
) -> Limits:
    """Set the limits named in `values`, and leave the others as they are.

    Raises LimitAboveTenants for a key's or member's limit above the tenant's. What was spent in
    this period before there was a budget counts in it. The session is the tenant's, or `system`'s.
    """
    await session.execute(HOLD_SETTLEMENTS, {"tenant": str(tenant_id)})
    if subject in (Subject.KEY, Subject.MEMBER):
        _check_within(await limits_of(session, tenant_id), values)
    row = await find_limits(session, tenant_id, subject, subject_id)
    before = {name: getattr(row, name) for name in values}
    if before == values and row in session:
        return row
    for name, value in values.items():
        setattr(row, name, value)
    row.updated_at = func.now()
    session.add(row)
    await session.flush()
    if any(values.get(name) is not None for name in MONEY):
        place = {"tenant": tenant_id, "subject": subject.value, "subject_id": subject_id}
        await session.execute(RECOUNT, place)
    changed = {name for name in values if before[name] != values[name]}
    await record(
        session,
        actor,
        "limits.changed",
        tenant_id=tenant_id,
        target=Target(f"{subject}_limits", subject_id or str(tenant_id)),
        before={name: before[name] for name in sorted(changed)},
        after={name: values[name] for name in sorted(changed)},
    )
    await session.refresh(row)
    return row


def _check_within(tenants: Limits, values: Mapping[str, int | None]) -> None:
    for name in (*RATES, *MONEY):
        value, most = values.get(name), getattr(tenants, name)
        if value is not None and most is not None and value > most:
            raise LimitAboveTenants(name, value, most)
