"""Takes a version out of service at an operator's word, and puts it back."""

from collections.abc import Mapping

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import AdapterNotFound, VersionNotFound
from loraplex.adapters_registry.versions.models import AdapterVersion
from loraplex.adapters_registry.versions.repository import VersionRepository
from loraplex.adapters_registry.versions.views import VersionView
from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit


async def quarantine(
    session: AsyncSession, actor: Actor, tenant: Tenant, name: str, number: int, reason: str
) -> VersionView:
    """Make a version uncallable from the next request on; again with another reason renames it.

    On role `system`. Raises AdapterNotFound and VersionNotFound.
    """
    version = await hold(session, tenant, name, number)
    before = {"reason": version.quarantine_reason}
    version.quarantined_at, version.quarantine_reason = func.now(), reason
    await note(session, actor, "version.quarantined", version, name, before, {"reason": reason})
    data = {"adapter": name, "version": number, "reason": reason}
    return await changed(session, tenant, name, version, EventType.VERSION_QUARANTINED, data)


async def release(
    session: AsyncSession, actor: Actor, tenant: Tenant, name: str, number: int
) -> VersionView:
    """Undo a quarantine; one that is in none is left as it is.

    On role `system`. Raises AdapterNotFound and VersionNotFound.
    """
    version = await hold(session, tenant, name, number)
    if version.quarantined_at is None:
        return VersionView.of(version, tenant.name, name)
    before = {"reason": version.quarantine_reason}
    version.quarantined_at = version.quarantine_reason = None
    await note(session, actor, "version.released", version, name, before, {"reason": None})
    data: dict[str, object] = {"adapter": name, "version": number}
    return await changed(session, tenant, name, version, EventType.VERSION_RESTORED, data)


async def note(
    session: AsyncSession,
    actor: Actor,
    action: str,
    version: AdapterVersion,
    name: str,
    before: Mapping[str, object],
    after: Mapping[str, object],
) -> None:
    await record(
        session,
        actor,
        action,
        tenant_id=TenantId(version.tenant_id),
        target=Target("version", version.id, f"{name}:v{version.number}"),
        before=before,
        after=after,
    )


async def changed(
    session: AsyncSession,
    tenant: Tenant,
    name: str,
    version: AdapterVersion,
    event_type: EventType,
    data: dict[str, object],
) -> VersionView:
    await session.flush()
    await emit(session, TenantId(tenant.id), event_type, data)
    await session.refresh(version, ["quarantined_at"])
    return VersionView.of(version, tenant.name, name)


async def hold(session: AsyncSession, tenant: Tenant, name: str, number: int) -> AdapterVersion:
    held = await VersionRepository(session).hold_adapter(TenantId(tenant.id), name)
    if held is None:
        raise AdapterNotFound(name)
    statement = select(AdapterVersion).where(
        AdapterVersion.tenant_id == tenant.id,
        AdapterVersion.adapter_id == held.adapter.id,
        AdapterVersion.number == number,
    )
    version = await session.scalar(statement)
    if version is None:
        raise VersionNotFound(name, number)
    return version
