"""Reads the audit log, newest first, a page at a time."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant

NEWEST_FIRST = Keyset("audit", AuditEvent.created_at, AuditEvent.id, descending=True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines; what is None does not matter. Times are half-open: since ≤ written < until."""

    action: str | None = None
    actor_id: UUID | None = None
    target_kind: str | None = None
    target: str | None = None
    """The target's id, or its name."""
    since: datetime | None = None
    until: datetime | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        row = AuditEvent
        wanted: list[ColumnElement[bool]] = []
        if self.action is not None:
            wanted.append(row.action == self.action)
        if self.actor_id is not None:
            wanted.append(row.actor_id == self.actor_id)
        if self.target_kind is not None:
            wanted.append(row.target_kind == self.target_kind)
        if self.target is not None:
            wanted.append((row.target_id == self.target) | (row.target_name == self.target))
        if self.since is not None:
            wanted.append(row.created_at >= self.since)
        if self.until is not None:
            wanted.append(row.created_at < self.until)
        return wanted


async def page_of_tenant(
    session: AsyncSession, tenant_id: TenantId, wanted: Wanted, page: PageRequest
) -> Page[AuditEvent]:
    """One tenant's lines; raises InvalidCursor."""
    mine = select(AuditEvent).where(AuditEvent.tenant_id == tenant_id, *wanted.conditions())
    found = await NEWEST_FIRST.page(session, mine, page)
    return found.map(lambda row: row[0])


async def page_of_all(
    session: AsyncSession, wanted: Wanted, page: PageRequest, tenant: str | None = None
) -> Page[tuple[AuditEvent, str | None]]:
    """Everybody's lines, or one tenant's, each with the tenant's name while it has one.

    On role `system`. Raises InvalidCursor.
    """
    statement = (
        select(AuditEvent, Tenant.name)
        .outerjoin(Tenant, Tenant.id == AuditEvent.tenant_id)
        .where(*wanted.conditions())
    )
    if tenant is not None:
        statement = statement.where(Tenant.name == tenant)
    return await NEWEST_FIRST.page(session, statement, page)
