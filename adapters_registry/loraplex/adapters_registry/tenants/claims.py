"""Claims on a tenant's export or deletion: one worker at a time, taken over when it dies."""

from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import func, literal, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.database.clock import transaction_time
from loraplex.platform.database.sessions import Database
from loraplex.platform.leases import LEASE_SECONDS
from loraplex.platform.lifecycle.models import ExportStatus, TenantDeletion, TenantExport
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant

LEASE = timedelta(seconds=LEASE_SECONDS)
LONGEST_ERROR = 200


class Claim(NamedTuple):
    """The right to work on a row until the lease ends; `attempt` fences."""

    tenant_id: TenantId
    tenant_name: str
    namespace: str
    row_id: UUID
    attempt: int


async def claim_export(session: AsyncSession, export_id: UUID) -> Claim | None:
    """Take an export that nobody works on; None when somebody does or it has ended."""
    open_one = TenantExport.status.in_([ExportStatus.QUEUED, ExportStatus.RUNNING])
    row = await session.scalar(
        select(TenantExport)
        .where(TenantExport.id == export_id, open_one)
        .with_for_update(skip_locked=True)
    )
    if row is None:
        return None
    is_running = row.status == ExportStatus.RUNNING
    if is_running and row.deadline_at > await transaction_time(session):
        return None
    row.status = ExportStatus.RUNNING
    return await _taken(session, row, row.id)


async def claim_deletion(session: AsyncSession, tenant_id: UUID) -> Claim | None:
    """Take a deletion that nobody works on; None when somebody does or it has ended."""
    row = await session.scalar(
        select(TenantDeletion)
        .where(TenantDeletion.tenant_id == tenant_id, TenantDeletion.finished_at.is_(None))
        .with_for_update(skip_locked=True)
    )
    if row is None or (row.attempts > 0 and row.deadline_at > await transaction_time(session)):
        return None
    return await _taken(session, row, row.tenant_id)


async def renew(
    database: Database, model: type[TenantExport] | type[TenantDeletion], claim: Claim
) -> bool:
    """Move the lease on; False once somebody else has the claim."""
    key = TenantExport.id if model is TenantExport else TenantDeletion.tenant_id
    async with database.unit_of_work() as session:
        renewed = await session.scalar(
            update(model)
            .where(key == claim.row_id, model.attempts == claim.attempt)
            .values(deadline_at=func.now() + literal(LEASE))
            .returning(model.tenant_id)
        )
    return renewed is not None


async def _taken(session: AsyncSession, row: TenantExport | TenantDeletion, row_id: UUID) -> Claim:
    row.attempts += 1
    row.deadline_at = await transaction_time(session) + LEASE
    tenant = await session.get(Tenant, row.tenant_id)
    assert tenant is not None, "a foreign key holds it"
    await session.flush()
    return Claim(TenantId(tenant.id), tenant.name, tenant.namespace, row_id, row.attempts)
