"""What operators do with a tenant's life, on role `system`. Commits nothing: the caller does."""

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from sqlalchemy import func, literal, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.clock import transaction_time
from loraplex.platform.database.outbox import enqueue
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.lifecycle.errors import (
    ExportNotFound,
    ExportNotReady,
    NameNotConfirmed,
    TenantGoing,
    TooManyExports,
)
from loraplex.platform.lifecycle.models import ExportStatus, TenantDeletion, TenantExport
from loraplex.platform.people.models import Invitation, Membership
from loraplex.platform.tenancy.errors import TenantNotFound
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import ApiKey, Tenant, TenantState

EXPORT_TENANT = "loraplex.adapters_registry.export_tenant"
DELETE_TENANT = "loraplex.adapters_registry.delete_tenant"
EXPORT_KEPT = timedelta(days=7)
FIRST_DEADLINE = timedelta(seconds=30)
"""How long the first message may take to be acted on before a sweep sends another."""
NEWEST_FIRST = Keyset("exports", TenantExport.created_at, TenantExport.id, descending=True)


async def find_tenant(session: AsyncSession, name_or_id: str) -> Tenant:
    """The tenant of this name or id, deleted ones too; raises TenantNotFound."""
    statement = select(Tenant).where(Tenant.name == name_or_id)
    tenant = await session.scalar(statement.execution_options(populate_existing=True))
    if tenant is None:
        try:
            tenant = await session.get(Tenant, UUID(name_or_id))
        except ValueError:
            tenant = None
    if tenant is None:
        raise TenantNotFound(name_or_id[:64])
    return tenant


async def change(
    session: AsyncSession, actor: Actor, tenant: Tenant, *, display_name: str
) -> Tenant:
    """Give the tenant another name for people to read; raises TenantGoing."""
    _refuse_going(tenant)
    before = tenant.display_name
    tenant.display_name = display_name
    await _record(
        session,
        actor,
        "tenant.changed",
        tenant,
        {"display_name": before},
        {"display_name": display_name},
    )
    return tenant


async def suspend(session: AsyncSession, actor: Actor, tenant: Tenant, reason: str) -> Tenant:
    """Refuse the tenant on every gateway; what runs is ended. Raises TenantGoing."""
    return await _move(session, actor, tenant, TenantState.SUSPENDED, reason)


async def resume(session: AsyncSession, actor: Actor, tenant: Tenant) -> Tenant:
    """Let a suspended tenant in again; raises TenantGoing."""
    return await _move(session, actor, tenant, TenantState.ACTIVE, None)


async def begin_deletion(
    session: AsyncSession, actor: Actor, tenant: Tenant, *, confirm: str
) -> TenantDeletion:
    """Let nobody in any more and ask for the deletion, which a job does; asking again is harmless.

    Raises NameNotConfirmed.
    """
    under_way = await session.get(TenantDeletion, tenant.id)
    if under_way is not None:
        return under_way
    if confirm != tenant.name:
        raise NameNotConfirmed
    # Waits for whoever writes rows of the tenant's now; who comes later sees that it goes.
    await session.refresh(tenant, with_for_update=True)
    before = tenant.state
    tenant.state, tenant.state_reason = TenantState.DELETING, None
    tenant.state_changed_at = await transaction_time(session)
    now = func.now()
    await session.execute(
        update(ApiKey)
        .where(ApiKey.tenant_id == tenant.id, ApiKey.revoked_at.is_(None))
        .values(revoked_at=now)
    )
    await session.execute(
        update(Membership)
        .where(Membership.tenant_id == tenant.id, Membership.ended_at.is_(None))
        .values(ended_at=now)
    )
    await session.execute(
        update(Invitation)
        .where(Invitation.tenant_id == tenant.id, Invitation.revoked_at.is_(None))
        .values(revoked_at=now)
    )
    deletion = TenantDeletion(
        tenant_id=tenant.id,
        namespace=tenant.namespace,
        requested_by=actor.label,
        deadline_at=func.now() + literal(FIRST_DEADLINE),
    )
    session.add(deletion)
    await session.flush()
    await session.refresh(deletion)
    await enqueue(session, DELETE_TENANT, {"tenant_id": str(tenant.id)})
    await _record(session, actor, "tenant.deleted", tenant, {"state": before}, None)
    return deletion


async def find_deletion(session: AsyncSession, tenant: Tenant) -> TenantDeletion | None:
    """How the tenant's deletion stands; None when nobody asked for one."""
    return await session.get(TenantDeletion, tenant.id, populate_existing=True)


async def request_export(session: AsyncSession, actor: Actor, tenant: Tenant) -> TenantExport:
    """Ask for an archive of all that the tenant has; raises TenantGoing and TooManyExports."""
    _refuse_going(tenant)
    await session.execute(
        select(Tenant.id).where(Tenant.id == tenant.id).with_for_update()
    )  # two who ask at once meet here
    open_one = select(TenantExport.id).where(
        TenantExport.tenant_id == tenant.id,
        TenantExport.status.in_([ExportStatus.QUEUED, ExportStatus.RUNNING]),
    )
    if await session.scalar(open_one) is not None:
        raise TooManyExports
    export = TenantExport(
        tenant_id=tenant.id,
        requested_by=actor.label,
        deadline_at=func.now() + literal(FIRST_DEADLINE),
        expires_at=func.now() + literal(EXPORT_KEPT),
    )
    session.add(export)
    await session.flush()
    await session.refresh(export)
    await enqueue(session, EXPORT_TENANT, {"export_id": str(export.id)})
    await record(
        session,
        actor,
        "tenant.exported",
        tenant_id=TenantId(tenant.id),
        target=Target("export", export.id, tenant.name),
    )
    return export


async def page_of_exports(
    session: AsyncSession, tenant: Tenant, wanted: PageRequest
) -> Page[TenantExport]:
    """The tenant's exports, newest first; raises InvalidCursor."""
    mine = select(TenantExport).where(TenantExport.tenant_id == tenant.id)
    page = await NEWEST_FIRST.page(session, mine, wanted)
    return page.map(lambda row: row[0])


async def find_export(session: AsyncSession, tenant: Tenant, export_id: UUID) -> TenantExport:
    """One export; raises ExportNotFound."""
    mine = TenantExport.tenant_id == tenant.id
    export = await session.scalar(select(TenantExport).where(mine, TenantExport.id == export_id))
    if export is None:
        raise ExportNotFound(export_id)
    return export


async def downloadable(session: AsyncSession, tenant: Tenant, export_id: UUID) -> TenantExport:
    """An export whose archive is there; raises ExportNotFound and ExportNotReady."""
    export = await find_export(session, tenant, export_id)
    if export.status != ExportStatus.COMPLETED:
        raise ExportNotReady(export.status)
    return export


def export_key(namespace: str, export_id: UUID) -> str:
    """Where the object store keeps an archive."""
    return f"tenants/{namespace}/exports/{export_id}.tar.gz"


async def _move(
    session: AsyncSession, actor: Actor, tenant: Tenant, state: TenantState, reason: str | None
) -> Tenant:
    _refuse_going(tenant)
    before = {"state": tenant.state, "reason": tenant.state_reason}
    if before == {"state": state, "reason": reason}:
        return tenant
    tenant.state, tenant.state_reason = state, reason
    tenant.state_changed_at = await transaction_time(session)
    action = "tenant.resumed" if state is TenantState.ACTIVE else "tenant.suspended"
    await _record(session, actor, action, tenant, before, {"state": state, "reason": reason})
    return tenant


def _refuse_going(tenant: Tenant) -> None:
    if tenant.state not in (TenantState.ACTIVE, TenantState.SUSPENDED):
        raise TenantGoing(tenant.name)


async def _record(
    session: AsyncSession,
    actor: Actor,
    action: str,
    tenant: Tenant,
    before: Mapping[str, object],
    after: Mapping[str, object] | None,
) -> None:
    await session.flush()
    await record(
        session,
        actor,
        action,
        tenant_id=TenantId(tenant.id),
        target=Target("tenant", tenant.id, tenant.name),
        before=before,
        after=after,
    )
