"""Which price applies now: read from Postgres, and remembered while nothing is new."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID
from weakref import WeakValueDictionary

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.database.changes import MAX_CACHE_SECONDS
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.models import PriceRow
from loraplex.platform.metering.prices import Price, in_force
from loraplex.platform.tenancy.identity import TenantId

REMEMBERED_TENANTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Remembered:
    prices: list[Price]
    until: float


class PriceBook:
    """One gateway's prices. They come with their moments, so that the future ones are known too."""

    def __init__(
        self, database: Database, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._remembered: dict[TenantId, Remembered] = {}
        self._turns: WeakValueDictionary[TenantId, asyncio.Lock] = WeakValueDictionary()

    async def current(
        self, tenant_id: TenantId, base_model: str, *, now: datetime | None = None
    ) -> Price:
        """The price of a request that is admitted at `now`."""
        return in_force(await self._prices(tenant_id), base_model, now or datetime.now(UTC))

    def forget(self, _: UUID | None = None) -> None:
        """Read again: a price is new, or one may have been missed."""
        self._remembered.clear()

    async def _prices(self, tenant_id: TenantId) -> list[Price]:
        if (known := self._known(tenant_id)) is not None:
            return known
        # Requests that wait for the same answer ask once.
        async with self._turns.setdefault(tenant_id, asyncio.Lock()):
            if (known := self._known(tenant_id)) is not None:
                return known
            until = self._monotonic() + MAX_CACHE_SECONDS
            async with self._database.unit_of_work(tenant_id) as session:
                prices = await prices_of(session, tenant_id)
            if len(self._remembered) >= REMEMBERED_TENANTS:
                self._remembered.clear()
            self._remembered[tenant_id] = Remembered(prices, until)
            return prices

    def _known(self, tenant_id: TenantId) -> list[Price] | None:
        remembered = self._remembered.get(tenant_id)
        if remembered is None or remembered.until <= self._monotonic():
            return None
        return remembered.prices


async def prices_of(session: AsyncSession, tenant_id: TenantId) -> list[Price]:
    """What a tenant's requests may be billed by, past and future, whoever asks."""
    theirs = or_(PriceRow.tenant_id.is_(None), PriceRow.tenant_id == tenant_id)
    return [price_of(row) for row in await session.scalars(select(PriceRow).where(theirs))]


async def price_by_id(session: AsyncSession, price_id: UUID) -> Price:
    """The price that a reservation or a ledger row names; prices never go."""
    row = await session.scalars(select(PriceRow).where(PriceRow.id == price_id))
    return price_of(row.one())


def price_of(row: PriceRow) -> Price:
    return Price(
        id=row.id,
        base_model=row.base_model,
        is_tenants_own=row.tenant_id is not None,
        input_micros_per_million=row.input_micros_per_million,
        cached_input_micros_per_million=row.cached_input_micros_per_million,
        output_micros_per_million=row.output_micros_per_million,
        storage_micros_per_gib_month=row.storage_micros_per_gib_month,
        currency=row.currency,
        effective_from=row.effective_from,
    )
