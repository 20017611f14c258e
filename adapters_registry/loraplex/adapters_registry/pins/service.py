"""Which adapters a tenant has pinned, within its quota. Commits nothing: the caller does."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import AdapterNotFound
from loraplex.adapters_registry.pins.errors import PinNotFound, TooManyPins
from loraplex.adapters_registry.pins.models import AdapterPin
from loraplex.adapters_registry.versions.models import Adapter
from loraplex.platform.admission.limits import limits_of
from loraplex.platform.database.outbox import enqueue
from loraplex.platform.tenancy.principals import TenantPrincipal

WANT_ADAPTERS = "loraplex.adapters_registry.want_adapters"


class Pins:
    """Pins of the tenant whose unit of work the session is."""

    async def get(self, session: AsyncSession, principal: TenantPrincipal, name: str) -> datetime:
        """Since when it is pinned; raises AdapterNotFound and PinNotFound."""
        adapter_id = await self._adapter(session, principal, name)
        pinned_at = await session.scalar(
            select(AdapterPin.created_at).where(
                AdapterPin.tenant_id == principal.tenant_id, AdapterPin.adapter_id == adapter_id
            )
        )
        if pinned_at is None:
            raise PinNotFound(name)
        return pinned_at

    async def put(self, session: AsyncSession, principal: TenantPrincipal, name: str) -> datetime:
        """Pin an adapter; pinning twice is once. Raises AdapterNotFound and TooManyPins."""
        adapter_id = await self._adapter(session, principal, name)
        tenant_id = principal.tenant_id
        # One at a time, so that two together cannot pass the quota.
        turn = func.pg_advisory_xact_lock(func.hashtext(f"pins:{tenant_id}"))
        await session.execute(select(turn))
        others = await session.scalar(
            select(func.count()).where(
                AdapterPin.tenant_id == tenant_id, AdapterPin.adapter_id != adapter_id
            )
        )
        limit = (await limits_of(session, tenant_id)).max_pinned_adapters
        if limit is not None and (others or 0) >= limit:
            raise TooManyPins(limit)
        pin = insert(AdapterPin).values(tenant_id=tenant_id, adapter_id=adapter_id)
        await session.execute(pin.on_conflict_do_nothing())
        await enqueue(session, WANT_ADAPTERS, {})
        return await self.get(session, principal, name)

    async def remove(self, session: AsyncSession, principal: TenantPrincipal, name: str) -> None:
        """Unpin; one that is not pinned is left so. Raises AdapterNotFound."""
        adapter_id = await self._adapter(session, principal, name)
        await session.execute(
            delete(AdapterPin).where(
                AdapterPin.tenant_id == principal.tenant_id, AdapterPin.adapter_id == adapter_id
            )
        )
        await enqueue(session, WANT_ADAPTERS, {})

    async def _adapter(self, session: AsyncSession, principal: TenantPrincipal, name: str) -> UUID:
        found = await session.scalar(
            select(Adapter.id).where(Adapter.tenant_id == principal.tenant_id, Adapter.name == name)
        )
        if found is None:
            raise AdapterNotFound(name)
        return found
