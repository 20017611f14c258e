"""GET /api/v1/admin/audit: every change, of all tenants and of the platform itself."""

from typing import Annotated

from fastapi import APIRouter, Query

from loraplex.api.admin.errors import system_of
from loraplex.api.audit_schemas import TEXT, PlatformAuditList, WantedDep, platform_line
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.platform.audit.reading import page_of_all

router = APIRouter(prefix="/api/v1/admin", tags=["admin"], responses=PROBLEM)


@router.get("/audit", operation_id="listPlatformAudit", summary="List the whole audit log")
async def list_platform_audit(
    services: ServicesDep,
    _: OperatorDep,
    wanted: WantedDep,
    page: PageDep,
    tenant: Annotated[
        str | None, Query(max_length=63, pattern=TEXT, description="Only this tenant's lines.")
    ] = None,
) -> PlatformAuditList:
    """Every change, newest first: tenants' own, and what belongs to none of them."""
    async with system_of(services).unit_of_work() as session:
        found = await page_of_all(session, wanted, page, tenant)
    return PlatformAuditList(
        data=[platform_line(row, name) for row, name in found.items],
        next_cursor=found.next_cursor,
    )
