"""A tenant's adapters and their versions; uploads."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as PathParameter
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.peft_config import MAX_CONFIG_BYTES
from loraplex.adapters_registry.uploads.archives import expand
from loraplex.adapters_registry.uploads.files import CONFIG_NAME, WEIGHTS_NAME
from loraplex.adapters_registry.versions import removal
from loraplex.adapters_registry.versions.views import AdapterView, VersionView
from loraplex.api.acting import record_own
from loraplex.api.authentication import AdapterReaderDep, AdapterWriterDep
from loraplex.api.documentation import PROBLEM, form_body
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.api.tenant.forms import FileLimit, receive_form
from loraplex.api.tenant.incoming import temporary_folder
from loraplex.api.tenant.schemas import Adapter, AdapterList, Reason, Version, VersionList
from loraplex.platform.audit.actors import Target

router = APIRouter(prefix="/api/v1/adapters", tags=["adapters"], responses=PROBLEM)

CONFIG, MODEL, ARCHIVE = "adapter_config", "adapter_model", "archive"
DeletedQuery = Annotated[
    bool, Query(description="Those that were deleted and can be restored, in place of the others.")
]
Number = Annotated[int, PathParameter(ge=1, le=2**31 - 1)]


@router.get("", operation_id="listAdapters")
async def list_adapters(
    services: ServicesDep,
    principal: AdapterReaderDep,
    wanted: PageDep,
    deleted: DeletedQuery = False,
) -> AdapterList:
    """The tenant's adapters, by name, each with its newest version of whatever status."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        page = await services.catalogue.list_adapters(session, principal, wanted, deleted=deleted)
    return AdapterList(data=[_adapter(one) for one in page.items], next_cursor=page.next_cursor)


@router.get("/{name}", operation_id="getAdapter")
async def get_adapter(name: str, services: ServicesDep, principal: AdapterReaderDep) -> Adapter:
    """One adapter."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        return _adapter(await services.catalogue.get_adapter(session, principal, name))


@router.get("/{name}/versions", operation_id="listVersions")
async def list_versions(
    name: str,
    services: ServicesDep,
    principal: AdapterReaderDep,
    wanted: PageDep,
    deleted: DeletedQuery = False,
) -> VersionList:
    """An adapter's versions, newest first."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        page = await services.catalogue.list_versions(
            session, principal, name, wanted, deleted=deleted
        )
    return VersionList(
        data=[version_shown(one) for one in page.items], next_cursor=page.next_cursor
    )


@router.get("/{name}/versions/{number}", operation_id="getVersion")
async def get_version(
    name: str, number: Number, services: ServicesDep, principal: AdapterReaderDep
) -> Version:
    """One version; its status ends as ready or rejected, then with reasons."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        return version_shown(await services.catalogue.get_version(session, principal, name, number))


@router.delete("/{name}", operation_id="deleteAdapter")
async def delete_adapter(
    name: str, request: Request, services: ServicesDep, principal: AdapterWriterDep
) -> Adapter:
    """Delete an adapter with its versions and aliases; it can be restored until it is purged."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view = await removal.delete_adapter(session, principal, name)
        target = Target("adapter", None, name)
        await record_own(session, request, principal, "adapter.deleted", target)
    return _adapter(view)


@router.post("/{name}/restore", operation_id="restoreAdapter")
async def restore_adapter(
    name: str, request: Request, services: ServicesDep, principal: AdapterWriterDep
) -> Adapter:
    """Undo a deletion."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view = await removal.restore_adapter(session, principal, name)
        target = Target("adapter", None, name)
        await record_own(session, request, principal, "adapter.restored", target)
    return _adapter(view)


@router.delete("/{name}/versions/{number}", operation_id="deleteVersion")
async def delete_version(
    name: str,
    number: Number,
    request: Request,
    services: ServicesDep,
    principal: AdapterWriterDep,
) -> Version:
    """Delete a version that no alias and no open rollout names; it can be restored."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view = await removal.delete_version(session, principal, name, number)
        await record_own(session, request, principal, "version.deleted", version_target(view))
    return version_shown(view)


@router.post("/{name}/versions/{number}/restore", operation_id="restoreVersion")
async def restore_version(
    name: str,
    number: Number,
    request: Request,
    services: ServicesDep,
    principal: AdapterWriterDep,
) -> Version:
    """Undo a deletion."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view = await removal.restore_version(session, principal, name, number)
        await record_own(session, request, principal, "version.restored", version_target(view))
    return version_shown(view)


@router.post(
    "/{name}/versions",
    operation_id="uploadVersion",
    status_code=202,
    responses={200: {"model": Version, "description": "Identical bytes are this version."}},
    openapi_extra=form_body([CONFIG, MODEL], [ARCHIVE]),
)
async def upload_version(
    name: str,
    request: Request,
    response: Response,
    services: ServicesDep,
    principal: AdapterWriterDep,
) -> Version:
    """Upload adapter_config.json and adapter_model.safetensors, or an archive of them."""
    await services.uploads.base_for(name)  # a bad name is refused before its bytes are read
    limits = [
        FileLimit(CONFIG, MAX_CONFIG_BYTES),
        FileLimit(MODEL, services.settings.max_upload_bytes),
    ]
    archive = FileLimit(ARCHIVE, sum(limit.limit_bytes for limit in limits))

    async def note(session: AsyncSession, view: VersionView) -> None:
        after = {"digest": view.digest, "size_bytes": view.size_bytes}
        await record_own(
            session, request, principal, "version.uploaded", version_target(view), after=after
        )

    async with (
        services.uploads.reserved(principal, _announced_bytes(request, limits)) as reservation_id,
        temporary_folder(services.settings) as folder,
    ):
        files = await receive_form(request, folder, limits, [archive])
        if ARCHIVE in files:
            expanded = await asyncio.to_thread(
                expand, files[ARCHIVE], folder, services.uploads.limits
            )
            files = {CONFIG: expanded[CONFIG_NAME], MODEL: expanded[WEIGHTS_NAME]}
        config = await asyncio.to_thread(files[CONFIG].read_bytes)
        view, is_new = await services.uploads.submit(
            principal, name, config, files[MODEL], reservation_id=reservation_id, settle=note
        )
    response.status_code = 202 if is_new else 200
    response.headers["Location"] = f"/api/v1/adapters/{name}/versions/{view.version}"
    return version_shown(view)


def _announced_bytes(request: Request, limits: Sequence[FileLimit]) -> int:
    """How large the form may be: as it says, else as large as its files may be."""
    most_bytes = sum(limit.limit_bytes for limit in limits)
    declared = request.headers.get("content-length", "")
    return min(int(declared), most_bytes) if declared.isdecimal() else most_bytes


def _adapter(view: AdapterView) -> Adapter:
    return Adapter(
        name=view.name,
        base=view.base,
        created_at=view.created_at,
        deleted_at=view.deleted_at,
        latest_version=None if view.latest_version is None else version_shown(view.latest_version),
    )


def version_target(view: VersionView) -> Target:
    """A version in the audit log."""
    return Target("version", None, f"{view.adapter}:v{view.version}")


def version_shown(view: VersionView) -> Version:
    return Version(
        adapter=view.adapter,
        version=view.version,
        status=view.status.value,
        reasons=[
            Reason(code=reason.code, message=reason.message, field=reason.field)
            for reason in view.reasons
        ],
        digest=view.digest,
        size_bytes=view.size_bytes,
        max_rank=view.max_rank,
        model=view.model,
        created_at=view.created_at,
        deleted_at=view.deleted_at,
        quarantine_reason=view.quarantine_reason,
    )
