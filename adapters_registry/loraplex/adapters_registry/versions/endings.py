"""Tells of a version whose validation has ended: its owner by an event, operators by a count."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.versions.models import Adapter, AdapterVersion, VersionStatus
from loraplex.platform.metrics import ADAPTER_REJECTIONS
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit


async def tell_of_ending(session: AsyncSession, tenant_id: TenantId, version_id: UUID) -> None:
    """Write the event of a version that has just become ready or rejected."""
    statement = (
        select(
            Adapter.name,
            AdapterVersion.number,
            AdapterVersion.digest,
            AdapterVersion.status,
            AdapterVersion.reasons,
        )
        .join(Adapter, Adapter.id == AdapterVersion.adapter_id)
        .where(AdapterVersion.tenant_id == tenant_id, AdapterVersion.id == version_id)
    )
    name, number, digest, status, reasons = (await session.execute(statement)).one()
    data: dict[str, object] = {"adapter": name, "version": number, "digest": digest}
    if status == VersionStatus.READY:
        await emit(session, tenant_id, EventType.VERSION_VALIDATED, data)
        return
    codes = sorted({str(reason["code"]) for reason in reasons})
    for code in codes:
        ADAPTER_REJECTIONS.labels(code).inc()
    await emit(session, tenant_id, EventType.VERSION_REJECTED, data | {"reasons": codes})
