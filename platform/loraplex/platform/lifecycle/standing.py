"""Whether a tenant is there to stay, for what has been on its way since before it was deleted."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.lifecycle.errors import TenantGoing
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant, TenantState

GOING = (TenantState.DELETING, TenantState.DELETED)


async def refuse_if_going(session: AsyncSession, tenant_id: TenantId) -> None:
    """Raise TenantGoing, read now, where the tenant is being deleted or has been."""
    columns = select(Tenant.name, Tenant.state).where(Tenant.id == tenant_id)
    name, state = (await session.execute(columns)).one()
    if state in GOING:
        raise TenantGoing(name)
