"""Bills what tenants store, an hour at a time: bytes times seconds, in integers.

A moment counts as its whole second, so that the hours of an interval add up to the interval,
however it is cut. Bytes count once a tenant, however many versions have them, from when they came
in until they are gone from the store.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.metering.models import BilledStorage, PriceRow, StorageHour
from loraplex.platform.metering.price_book import price_of
from loraplex.platform.metering.prices import Price, in_force

HOUR: Final = timedelta(hours=1)
WAIT_FOR_STORING: Final = "2s"
"""How long to wait for transactions that store or delete; the next run tries again."""

STORED = text(
    """
    SELECT tenant_id, sum(size_bytes * (
        floor(extract(epoch FROM least(coalesce(stored_until, :until), :until)))::bigint
        - floor(extract(epoch FROM greatest(stored_from, :since)))::bigint
    ))::bigint AS byte_seconds
    FROM stored_blobs
    WHERE stored_from < :until AND (stored_until IS NULL OR stored_until > :since)
    GROUP BY tenant_id
    """
)


async def bill_next_hour(session: AsyncSession, now: datetime) -> datetime | None:
    """Bill every tenant's storage of the next hour that has ended, at the price of its beginning.

    Needs role `system`. Returns the hour, or None when none has ended that is not billed. Raises
    sqlalchemy's OperationalError when somebody stores or deletes for too long; nothing is billed
    then, and the next run tries again.
    """
    billed = select(BilledStorage.billed_until).with_for_update()
    hour_start = (await session.scalars(billed)).one()
    if hour_start + HOUR > now:
        return None
    # Whoever took a time of this hour holds the table until it is committed, so it is seen now.
    await session.execute(text(f"SET LOCAL lock_timeout = '{WAIT_FOR_STORING}'"))
    await session.execute(text("LOCK TABLE blobs IN SHARE MODE"))
    stored = await byte_seconds(session, hour_start, hour_start + HOUR)
    prices = await storage_prices(session)
    rows: list[dict[str, Any]] = []
    for tenant_id, stored_byte_seconds in stored.items():
        price = in_force(prices[None] + prices.get(tenant_id, []), None, hour_start)
        rows.append(
            {
                "tenant_id": tenant_id,
                "hour_start": hour_start,
                "byte_seconds": stored_byte_seconds,
                "price_id": price.id,
                "cost_micros": price.storage_cost(stored_byte_seconds),
            }
        )
    if rows:
        await session.execute(insert(StorageHour), rows)
    await session.execute(update(BilledStorage).values(billed_until=hour_start + HOUR))
    return hour_start


async def byte_seconds(
    session: AsyncSession, since: datetime, until: datetime
) -> Mapping[UUID, int]:
    """What each tenant stored within the half-open interval, where that is more than nothing."""
    rows = await session.execute(STORED, {"since": since, "until": until})
    return {row.tenant_id: row.byte_seconds for row in rows if row.byte_seconds > 0}


async def storage_prices(session: AsyncSession) -> dict[UUID | None, list[Price]]:
    """Prices of storage by the tenant they are for; None has everybody's."""
    found: dict[UUID | None, list[Price]] = {}
    for row in await session.scalars(select(PriceRow).where(PriceRow.base_model.is_(None))):
        found.setdefault(row.tenant_id, []).append(price_of(row))
    return found
