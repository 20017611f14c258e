"""Tells of a version whose validation has ended: its owner by an event, operators by a count, and
the audit log by a line."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.versions.models import Adapter, AdapterVersion, VersionStatus
from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.metrics import ADAPTER_REJECTIONS
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit


async def tell_of_ending(session: AsyncSession, tenant_id: TenantId, version_id: UUID) -> None:
    """Write the event of a version that has just become ready or rejected."""
    name, version = await find(session, tenant_id, version_id)
    data: dict[str, object] = {
        "adapter": name,
        "version": version.number,
        "digest": version.digest,
    }
    if version.status == VersionStatus.READY:
        await emit(session, tenant_id, EventType.VERSION_VALIDATED, data)
        await note(session, "version.validated", name, version, {"digest": version.digest})
        return
    codes = sorted({str(reason["code"]) for reason in version.reasons})
    for code in codes:
        ADAPTER_REJECTIONS.labels(code).inc()
    await emit(session, tenant_id, EventType.VERSION_REJECTED, data | {"reasons": codes})
    await note(session, "version.rejected", name, version, {"reasons": codes})


async def tell_of_quarantine(
    session: AsyncSession, tenant_id: TenantId, version_id: UUID, reason: str
) -> None:
    """Tell of a version that was put away by no person's word."""
    name, version = await find(session, tenant_id, version_id)
    data = {"adapter": name, "version": version.number, "reason": reason}
    await emit(session, tenant_id, EventType.VERSION_QUARANTINED, data)
    await note(session, "version.quarantined", name, version, {"reason": reason})


async def find(
    session: AsyncSession, tenant_id: TenantId, version_id: UUID
) -> tuple[str, AdapterVersion]:
    """The version as it is now, and its adapter's name."""
    statement = (
        select(Adapter.name, AdapterVersion)
        .join(Adapter, Adapter.id == AdapterVersion.adapter_id)
        .where(AdapterVersion.tenant_id == tenant_id, AdapterVersion.id == version_id)
        .execution_options(populate_existing=True)
    )
    name, version = (await session.execute(statement)).one()
    return name, version


async def note(
    session: AsyncSession,
    action: str,
    name: str,
    version: AdapterVersion,
    after: dict[str, object],
) -> None:
    await record(
        session,
        Actor.system("validation"),
        action,
        tenant_id=TenantId(version.tenant_id),
        target=Target("version", version.id, f"{name}:v{version.number}"),
        after=after,
    )
