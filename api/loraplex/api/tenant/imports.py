"""A tenant's imports: adapters fetched from where the tenant keeps them."""

from uuid import UUID

from fastapi import APIRouter, Request, Response

from loraplex.adapters_registry.imports.errors import ImportNotFound
from loraplex.adapters_registry.imports.views import ImportView
from loraplex.api.acting import actor_of
from loraplex.api.authentication import AdapterReaderDep, AdapterWriterDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.api.tenant.import_schemas import (
    Import,
    ImportedFrom,
    ImportFailure,
    ImportList,
    ImportRequest,
)
from loraplex.api.validation import read_json, validate

router = APIRouter(prefix="/api/v1/imports", tags=["imports"], responses=PROBLEM)


@router.post(
    "", operation_id="startImport", status_code=202, openapi_extra=json_body(ImportRequest)
)
async def start_import(
    request: Request, response: Response, services: ServicesDep, principal: AdapterWriterDep
) -> Import:
    """Fetch an adapter from a bucket, an https address or the Hugging Face hub, as a new version.

    Credentials are kept encrypted while the import is open, and wiped when it ends.
    """
    body = validate(ImportRequest, await read_json(request))
    actor = actor_of(request, principal)
    view = await services.imports.start(principal, body.adapter, body.source.source(), actor)
    response.headers["Location"] = f"/api/v1/imports/{view.id}"
    return _import(view)


@router.get("", operation_id="listImports")
async def list_imports(
    services: ServicesDep, principal: AdapterReaderDep, wanted: PageDep
) -> ImportList:
    """The tenant's imports, newest first."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        page = await services.imports.page(session, principal, wanted)
    return ImportList(data=[_import(view) for view in page.items], next_cursor=page.next_cursor)


@router.get("/{import_id}", operation_id="getImport")
async def get_import(import_id: str, services: ServicesDep, principal: AdapterReaderDep) -> Import:
    """One import; its status ends as completed or failed."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        return _import(await services.imports.get(session, principal, _id(import_id)))


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ImportNotFound(text[:64]) from None


def _import(view: ImportView) -> Import:
    return Import(
        id=view.id,
        adapter=view.adapter,
        source=ImportedFrom.model_validate(dict(view.source)),
        status=view.status.value,
        bytes=view.fetched_bytes,
        attempts=view.attempts,
        last_error=view.last_error,
        error=None if view.error is None else ImportFailure.model_validate(dict(view.error)),
        version=view.version,
        created_at=view.created_at,
        ended_at=view.ended_at,
    )
