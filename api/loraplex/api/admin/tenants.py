"""GET /api/v1/admin/tenants: every tenant, for operators."""

from fastapi import APIRouter

from loraplex.api.admin.errors import NoOperatorDatabase
from loraplex.api.admin.schemas import Tenant, TenantList
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep

router = APIRouter(prefix="/api/v1/admin", tags=["admin"], responses=PROBLEM)


@router.get("/tenants", operation_id="listTenants")
async def list_tenants(services: ServicesDep, _: OperatorDep, wanted: PageDep) -> TenantList:
    """Every tenant, by name."""
    if services.system is None:
        raise NoOperatorDatabase
    async with services.system.unit_of_work() as session:
        page = await services.tenants.page_of_tenants(session, wanted)
    return TenantList(
        data=[
            Tenant(
                id=str(tenant.id),
                name=tenant.name,
                state=tenant.state,
                max_concurrent_requests=tenant.max_concurrent_requests,
                created_at=tenant.created_at,
            )
            for tenant in page.items
        ],
        next_cursor=page.next_cursor,
    )
