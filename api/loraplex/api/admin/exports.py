"""Operators export tenants: a job writes an archive, which is downloaded once it is there."""

import asyncio
from uuid import UUID

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from loraplex.adapters_registry.errors import BlobMissing
from loraplex.api.acting import actor_of
from loraplex.api.admin.errors import system_of
from loraplex.api.admin.tenant_schemas import Export, ExportList
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.platform.lifecycle import service
from loraplex.platform.lifecycle.errors import ExportNotFound
from loraplex.platform.lifecycle.models import TenantExport

router = APIRouter(
    prefix="/api/v1/admin/tenants/{tenant}/exports", tags=["admin"], responses=PROBLEM
)

ARCHIVE = "application/gzip"


@router.post("", operation_id="exportTenant", status_code=202)
async def export_tenant(
    tenant: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> Export:
    """Ask for an archive of all that a tenant has: its rows as JSON lines, and its adapters."""
    async with system_of(services).unit_of_work() as session:
        row = await service.find_tenant(session, tenant)
        export = await service.request_export(session, actor_of(request, operator), row)
        return _shown(row.name, export)


@router.get("", operation_id="listExports")
async def list_exports(
    tenant: str, services: ServicesDep, _: OperatorDep, wanted: PageDep
) -> ExportList:
    """A tenant's exports, newest first."""
    async with system_of(services).unit_of_work() as session:
        row = await service.find_tenant(session, tenant)
        page = await service.page_of_exports(session, row, wanted)
    return ExportList(
        data=[_shown(row.name, one) for one in page.items], next_cursor=page.next_cursor
    )


@router.get("/{export}", operation_id="getExport")
async def get_export(tenant: str, export: UUID, services: ServicesDep, _: OperatorDep) -> Export:
    """One export, and whether its archive is there."""
    async with system_of(services).unit_of_work() as session:
        row = await service.find_tenant(session, tenant)
        return _shown(row.name, await service.find_export(session, row, export))


@router.get(
    "/{export}/download",
    operation_id="downloadExport",
    response_class=Response,
    responses={
        200: {"description": "The archive.", "content": {ARCHIVE: {}}},
    },
)
async def download_export(
    tenant: str, export: UUID, services: ServicesDep, _: OperatorDep
) -> Response:
    """The archive of an export: a .tar.gz, which `export.json` in it describes."""
    async with system_of(services).unit_of_work() as session:
        row = await service.find_tenant(session, tenant)
        found = await service.downloadable(session, row, export)
    key = service.export_key(row.namespace, found.id)
    name = f"{row.name}-{found.created_at:%Y-%m-%d}.tar.gz"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if found.size_bytes is not None:
        headers["Content-Length"] = str(found.size_bytes)
    try:
        chunks = await asyncio.to_thread(services.objects.stream, key)
    except BlobMissing:  # swept a moment ago, or not in the backup that this database came from
        raise ExportNotFound(export) from None
    return StreamingResponse(chunks, media_type=ARCHIVE, headers=headers)


def _shown(tenant: str, row: TenantExport) -> Export:
    return Export.model_validate(
        {
            "id": str(row.id),
            "tenant": tenant,
            "status": str(row.status),
            "requested_by": row.requested_by,
            "size_bytes": row.size_bytes,
            "last_error": row.last_error,
            "created_at": row.created_at,
            "completed_at": row.completed_at,
            "expires_at": row.expires_at,
        }
    )
