"""Ledger rows of tenants that have keys to ask about them."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select

from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import ApiKey
from loraplex.platform.tenancy.models import Tenant as TenantRow
from tests.api.conftest import Tenant, in_system
from tests.platform.metering.ledgers import Customer, entry, scattered, write


def customer_of(settings: Settings, tenant: Tenant) -> Customer:
    async def find(session: Any) -> Customer:
        mine = select(TenantRow.id).where(TenantRow.name == tenant.name)
        tenant_id = await session.scalar(mine)
        keys = await session.scalars(select(ApiKey.id).where(ApiKey.tenant_id == tenant_id))
        return Customer(TenantId(tenant_id), tenant.name, tuple(keys))

    found: Customer = asyncio.run(in_system(settings, find))
    return found


def settled(
    settings: Settings, tenant: Tenant, moments: Sequence[datetime], **changes: object
) -> list[LedgerEntry]:
    """A request settled at each moment."""
    customer = customer_of(settings, tenant)
    rows = [entry(customer, moment, **changes) for moment in moments]
    asyncio.run(in_system(settings, lambda session: write(session, rows)))
    return rows


def many(settings: Settings, tenant: Tenant, rows: int, seed: int) -> list[LedgerEntry]:
    """Requests of three days, of any kind."""
    made = scattered(customer_of(settings, tenant), rows, seed)
    asyncio.run(in_system(settings, lambda session: write(session, made)))
    return made
