"""GET /api/v1/audit: what was changed in the tenant, by whom."""

from typing import Annotated

from fastapi import APIRouter, Depends

from loraplex.api.audit_schemas import AuditList, WantedDep, line
from loraplex.api.authentication import requires
from loraplex.api.documentation import PROBLEM
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.platform.audit.reading import page_of_tenant
from loraplex.platform.tenancy.principals import Scope, TenantPrincipal

router = APIRouter(prefix="/api/v1", tags=["audit"], responses=PROBLEM)

AuditReaderDep = Annotated[TenantPrincipal, Depends(requires(Scope.AUDIT_READ))]


@router.get("/audit", operation_id="listAudit", summary="List the tenant's audit log")
async def list_audit(
    services: ServicesDep, principal: AuditReaderDep, wanted: WantedDep, page: PageDep
) -> AuditList:
    """What was changed in the tenant, newest first: by its keys and people, operators and jobs."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        found = await page_of_tenant(session, principal.tenant_id, wanted, page)
    return AuditList(data=[line(row) for row in found.items], next_cursor=found.next_cursor)
