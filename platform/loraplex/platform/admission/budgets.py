"""Tells a tenant, once a day and a month, that a budget is nearly or wholly spent."""

from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.admission.errors import BudgetExhausted
from loraplex.platform.admission.models import BudgetAlert
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit

TO_TELL = text(
    """
    SELECT t.* FROM (
        SELECT array_agg(l.subject::text) AS subjects, array_agg(l.subject_id::text) AS ids
        FROM limits l WHERE l.tenant_id = :tenant
            AND num_nonnulls(l.daily_budget_micros, l.monthly_budget_micros) > 0
    ) s CROSS JOIN LATERAL gateway.budgets_to_tell(:tenant, s.subjects, s.ids, gateway.clock()) t
    """
)

TOLD_BY = ("subject", "subject_id", "period", "period_start", "event")
"""What makes two pieces of news the same."""


async def tell(
    session: AsyncSession, tenant_id: TenantId, refusal: BudgetExhausted | None = None
) -> None:
    """Emit what the tenant was not told of yet, in this transaction; `refusal` is news of its own.

    A budget is exhausted when all of it is spent, or when a request is refused since it might cost
    more than is left.
    """
    found = await session.execute(TO_TELL, {"tenant": tenant_id})
    news = [dict(row) for row in found.mappings()]
    if refusal is not None:
        period = "day" if refusal.dimension == "daily_budget_micros" else "month"
        start = await session.scalar(
            select(func.date_trunc(period, func.timezone("UTC", func.gateway.clock())))
        )
        assert start is not None, "there is always a day"
        news.append(
            {
                "subject": refusal.subject,
                "subject_id": refusal.subject_id,
                "period": period,
                "period_start": start.date(),
                "event": EventType.BUDGET_EXHAUSTED.value,
                "budget_micros": refusal.limit,
                "spent_micros": refusal.used,
            }
        )
    for one in news:
        told = {name: one[name] for name in TOLD_BY}
        is_first = await session.scalar(
            insert(BudgetAlert)
            .values(tenant_id=tenant_id, **told)
            .on_conflict_do_nothing()
            .returning(BudgetAlert.event)
        )
        if is_first is not None:
            await emit(session, tenant_id, one["event"], _data(one))


def _data(news: dict[str, object]) -> dict[str, object]:
    """What an event tells: of whose budget, for which period from when, in micro-units."""
    data = {name: value for name, value in news.items() if name != "event"}
    return data | {"period_start": str(news["period_start"])}
