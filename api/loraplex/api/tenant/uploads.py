"""Resumable uploads: opened, filled part by part, completed or aborted."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as PathParameter

from loraplex.adapters_registry.uploads.files import MAX_PARTS, FileDraft
from loraplex.adapters_registry.uploads.models import UploadStatus
from loraplex.adapters_registry.uploads.views import UploadView
from loraplex.api.acting import actor_of
from loraplex.api.authentication import AdapterReaderDep, AdapterWriterDep
from loraplex.api.documentation import PROBLEM, binary_body, json_body
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.api.tenant.incoming import receive_body, temporary_folder
from loraplex.api.tenant.upload_schemas import (
    NewUpload,
    NoFields,
    PartReceived,
    PartUrl,
    PartUrlList,
    PartUrlsWanted,
    Upload,
    UploadedFile,
    UploadError,
    UploadList,
)
from loraplex.api.validation import read_json, validate

router = APIRouter(prefix="/api/v1/uploads", tags=["uploads"], responses=PROBLEM)

PRESIGNED_SECONDS = 900
"""Long enough for a batch of parts on a slow line; the next is signed when it is asked for."""

UploadId = Annotated[UUID, PathParameter(description="The upload's id.")]
PartNumber = Annotated[int, PathParameter(ge=1, le=MAX_PARTS)]
StatusQuery = Annotated[
    Literal["pending", "completing", "completed", "aborted", "expired", "failed"] | None,
    Query(description="Only uploads of this status."),
]


@router.post("", operation_id="createUpload", status_code=201, openapi_extra=json_body(NewUpload))
async def create_upload(
    request: Request, response: Response, services: ServicesDep, principal: AdapterWriterDep
) -> Upload:
    """Open an upload of an adapter's two files, or of one archive, and reserve its bytes."""
    body = validate(NewUpload, await read_json(request))
    drafts = [FileDraft(file.name, file.size_bytes, file.sha256) for file in body.files]
    actor = actor_of(request, principal)
    view = await services.resumable.create(principal, body.adapter, drafts, actor)
    response.headers["Location"] = _path(view.id)
    return _upload(view)


@router.get("", operation_id="listUploads")
async def list_uploads(
    services: ServicesDep,
    principal: AdapterReaderDep,
    wanted: PageDep,
    adapter: Annotated[str | None, Query(description="Only uploads for this adapter.")] = None,
    status: StatusQuery = None,
) -> UploadList:
    """The tenant's uploads, newest first; those that ended a week ago are forgotten."""
    page = await services.resumable.reader.page(
        principal,
        wanted,
        adapter=adapter,
        status=None if status is None else UploadStatus(status),
    )
    return UploadList(data=[_upload(view) for view in page.items], next_cursor=page.next_cursor)


@router.get("/{upload_id}", operation_id="getUpload")
async def get_upload(
    upload_id: UploadId, services: ServicesDep, principal: AdapterReaderDep
) -> Upload:
    """One upload, and which parts of it have come."""
    return _upload(await services.resumable.reader.get(principal, upload_id))


@router.post(
    "/{upload_id}/part-urls", operation_id="createPartUrls", openapi_extra=json_body(PartUrlsWanted)
)
async def create_part_urls(
    upload_id: UploadId, request: Request, services: ServicesDep, principal: AdapterWriterDep
) -> PartUrlList:
    """Where to PUT the next parts: at the object store, or here where clients do not reach it.

    An address that begins with `/` is this API's and wants the key; any other wants none.
    """
    body = validate(PartUrlsWanted, await read_json(request))
    slots = await services.resumable.slots(principal, upload_id, body.file, body.parts)
    staging = services.resumable.staging
    if staging.public is None:
        base, expires_at = f"{_path(upload_id)}/files/{quote(body.file, safe='')}/parts", None
        urls = [f"{base}/{slot.number}" for slot in slots]
    else:
        expires_at = datetime.now(UTC) + timedelta(seconds=PRESIGNED_SECONDS)
        urls = [staging.presign_part(slot, PRESIGNED_SECONDS) for slot in slots]
    return PartUrlList(
        urls=[
            PartUrl(part=slot.number, url=url, size_bytes=slot.size_bytes, expires_at=expires_at)
            for slot, url in zip(slots, urls, strict=True)
        ]
    )


@router.put(
    "/{upload_id}/files/{file}/parts/{part}", operation_id="putPart", openapi_extra=binary_body()
)
async def put_part(
    upload_id: UploadId,
    file: str,
    part: PartNumber,
    request: Request,
    services: ServicesDep,
    principal: AdapterWriterDep,
) -> PartReceived:
    """Send one part through the gateway; the same part again replaces it."""
    (slot,) = await services.resumable.slots(principal, upload_id, file, [part])
    async with temporary_folder(services.settings) as folder:
        path = folder / "part"
        await receive_body(request, path, part, slot.size_bytes)
        await services.resumable.put_part(principal, slot, path)
    return PartReceived(part=part, size_bytes=slot.size_bytes)


@router.post(
    "/{upload_id}/complete",
    operation_id="completeUpload",
    status_code=202,
    openapi_extra=json_body(NoFields),
)
async def complete_upload(
    upload_id: UploadId,
    request: Request,
    response: Response,
    services: ServicesDep,
    principal: AdapterWriterDep,
) -> Upload:
    """Have the upload checked and made a version, in the background; once however often asked."""
    await _no_fields(request)
    view = await services.resumable.complete(principal, upload_id)
    response.headers["Location"] = _path(upload_id)
    return _upload(view)


@router.post("/{upload_id}/abort", operation_id="abortUpload", openapi_extra=json_body(NoFields))
async def abort_upload(
    upload_id: UploadId, request: Request, services: ServicesDep, principal: AdapterWriterDep
) -> Upload:
    """Give a pending upload up and release its bytes; once however often asked."""
    await _no_fields(request)
    actor = actor_of(request, principal)
    return _upload(await services.resumable.abort(principal, upload_id, actor))


async def _no_fields(request: Request) -> None:
    if await request.body():
        validate(NoFields, await read_json(request))


def _path(upload_id: UUID) -> str:
    return f"/api/v1/uploads/{upload_id}"


def _upload(view: UploadView) -> Upload:
    error = view.error
    return Upload(
        id=str(view.id),
        adapter=view.adapter,
        status=view.status.value,
        files=[
            UploadedFile(
                name=file.name,
                size_bytes=file.size_bytes,
                sha256=file.sha256,
                part_bytes=file.part_bytes,
                parts_received=list(file.parts_received),
            )
            for file in view.files
        ],
        version=view.version,
        error=None
        if error is None
        else UploadError(code=error.code, message=error.message, field=error.field),
        expires_at=view.expires_at,
        created_at=view.created_at,
    )
