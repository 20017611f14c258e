"""Operators make prices. None is ever changed: the next one begins where it should end."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import insert, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.clock import transaction_time
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.metering.errors import CurrencyMismatch, PriceDatedBack, PriceExists
from loraplex.platform.metering.models import PriceRow
from loraplex.platform.metering.prices import NO_CURRENCY
from loraplex.platform.tenancy.identity import TenantId

NEWEST = Keyset("prices", PriceRow.created_at, PriceRow.id, descending=True)
# Two first prices at once must not be in two currencies.
LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('prices', 0))")


async def create_price(
    session: AsyncSession,
    actor: Actor,
    *,
    tenant_id: TenantId | None,
    base_model: str | None,
    input_micros_per_million: int,
    cached_input_micros_per_million: int,
    output_micros_per_million: int,
    storage_micros_per_gib_month: int | None,
    currency: str,
    effective_from: datetime | None,
) -> PriceRow:
    """Add a price that applies from now on, or from a later moment. Needs role `system`.

    Raises PriceDatedBack, PriceExists and CurrencyMismatch.
    """
    await session.execute(LOCK)
    now = await transaction_time(session)
    known = await currency_of(session)
    if NO_CURRENCY not in (known, currency) and known != currency:
        raise CurrencyMismatch(known, currency)
    if effective_from is not None and effective_from < now:
        raise PriceDatedBack(effective_from)
    values: dict[str, Any] = {
        "tenant_id": tenant_id,
        "base_model": base_model,
        "input_micros_per_million": input_micros_per_million,
        "cached_input_micros_per_million": cached_input_micros_per_million,
        "output_micros_per_million": output_micros_per_million,
        "storage_micros_per_gib_month": storage_micros_per_gib_month,
        "currency": currency,
        "effective_from": now if effective_from is None else effective_from,
    }
    try:
        price_id: UUID = (
            await session.scalars(insert(PriceRow).values(**values).returning(PriceRow.id))
        ).one()
    except IntegrityError as error:
        if "prices_moment_idx" in str(error.orig):
            raise PriceExists from None
        raise
    await record(
        session,
        actor,
        "price.created",
        tenant_id=tenant_id,
        target=Target("price", price_id, base_model),
        after=values
        | {
            "tenant_id": None if tenant_id is None else str(tenant_id),
            "effective_from": values["effective_from"].astimezone(UTC).isoformat(),
        },
    )
    return (await session.scalars(select(PriceRow).where(PriceRow.id == price_id))).one()


async def page_of_prices(session: AsyncSession, wanted: PageRequest) -> Page[PriceRow]:
    """Every price that was ever made, the newest first; raises InvalidCursor."""
    return (await NEWEST.page(session, select(PriceRow), wanted)).map(lambda row: row[0])


async def currency_of(session: AsyncSession) -> str:
    """The one that all prices here are in; NO_CURRENCY while everything is free."""
    priced = select(PriceRow.currency).where(PriceRow.currency != NO_CURRENCY).limit(1)
    return await session.scalar(priced) or NO_CURRENCY
