"""Moves a resumable upload's status by compare-and-set; every end gives its reservation back.

    pending ──complete──▶ completing ──▶ completed | failed
       ├──▶ aborted            (claimed by a job, put back by it or by the sweeper)
       ├──▶ expired
       └──▶ failed             (its parts are lost)

`attempts` fences: whoever claimed attempt 1 can no longer end the upload once attempt 2 is claimed.
While one runs, its deadline is a lease that it renews.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.uploads import quota
from loraplex.adapters_registry.uploads.errors import UploadLost, UploadNotFinished
from loraplex.adapters_registry.uploads.models import Upload, UploadFile, UploadStatus
from loraplex.adapters_registry.uploads.repository import UploadRepository
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.outbox import enqueue
from loraplex.platform.leases import LEASE_SECONDS
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit

COMPLETE_UPLOAD = "loraplex.adapters_registry.complete_upload"

QUEUE_SECONDS = 20
"""From `complete`, or a failed attempt, until the sweeper asks again."""
MAX_ATTEMPTS = 5
MAX_ERROR_CHARACTERS = 1000
OURSELVES = Actor.system("uploads")


class Superseded(Exception):
    """Another attempt has this upload now, or has ended it."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One claimed attempt at completing an upload, and whose it is (an Owner)."""

    tenant_id: TenantId
    tenant_name: str
    namespace: TenantNamespace
    upload_id: UUID
    attempt: int
    adapter_name: str
    base_name: str
    files: Sequence[UploadFile]


async def begin_completing(session: AsyncSession, tenant_id: TenantId, upload_id: UUID) -> bool:
    """Take no more parts and ask for completion; False when it is not pending any more."""
    moved = await move(
        session,
        tenant_id,
        upload_id,
        (Upload.status == UploadStatus.PENDING) & (Upload.expires_at > func.now()),
        {"status": UploadStatus.COMPLETING, "deadline_at": in_seconds(QUEUE_SECONDS)},
    )
    if moved:
        await ask(session, tenant_id, upload_id)
    return moved


async def abort(
    session: AsyncSession, tenant_id: TenantId, upload_id: UUID, actor: Actor = OURSELVES
) -> bool:
    """End a pending upload and release its bytes; False when it is not pending."""
    is_pending = Upload.status == UploadStatus.PENDING
    values = {"status": UploadStatus.ABORTED}
    return await end(session, tenant_id, upload_id, is_pending, values, actor)


async def lose(session: AsyncSession, tenant_id: TenantId, upload_id: UUID) -> bool:
    """End a pending upload whose parts the store has lost; False when it is not pending."""
    is_pending = Upload.status == UploadStatus.PENDING
    return await end(session, tenant_id, upload_id, is_pending, failed(UploadLost()))


async def claim(session: AsyncSession, tenant_id: TenantId, upload_id: UUID) -> Completion | None:
    """Begin an attempt; None when the upload waits for none."""
    claimed = await move(
        session,
        tenant_id,
        upload_id,
        (Upload.status == UploadStatus.COMPLETING) & Upload.claimed_at.is_(None),
        {
            "claimed_at": func.now(),
            "attempts": Upload.attempts + 1,
            "deadline_at": in_seconds(LEASE_SECONDS),
        },
    )
    if not claimed:
        return None
    rows = UploadRepository(session, tenant_id)
    upload = await rows.by_id(upload_id)
    assert upload is not None, "it was claimed a moment ago"
    tenant = await session.get_one(Tenant, tenant_id)
    return Completion(
        tenant_id=tenant_id,
        tenant_name=tenant.name,
        namespace=TenantNamespace(tenant.namespace),
        upload_id=upload_id,
        attempt=upload.attempts,
        adapter_name=upload.adapter_name,
        base_name=upload.base_name,
        files=(await rows.files([upload_id]))[upload_id],
    )


async def renew(session: AsyncSession, completion: Completion) -> bool:
    """Say that the attempt is alive; False when it is no longer the current one.

    One that has made its version lives on: it still puts blobs where nobody collects them.
    """
    tenant_id, upload_id = completion.tenant_id, completion.upload_id
    values = {"deadline_at": in_seconds(LEASE_SECONDS)}
    if await move(session, tenant_id, upload_id, _is_current(completion), values):
        return True
    completed = select(Upload.id).where(
        Upload.tenant_id == tenant_id,
        Upload.id == upload_id,
        Upload.status == UploadStatus.COMPLETED,
        Upload.attempts == completion.attempt,
    )
    return await session.scalar(completed) is not None


async def resize(session: AsyncSession, completion: Completion, size_bytes: int) -> None:
    """Reserve what the files turned out to have; raises Superseded and StorageQuotaExceeded."""
    tenant_id, upload_id = completion.tenant_id, completion.upload_id
    # Holds the row, so that nobody ends the upload, and releases, before this reservation is made.
    held = {"attempts": Upload.attempts}
    if not await move(session, tenant_id, upload_id, _is_current(completion), held):
        raise Superseded
    await quota.reserve(session, tenant_id, upload_id, size_bytes, lease=None)


async def finish(session: AsyncSession, completion: Completion, version: int) -> None:
    """End the upload as completed; raises Superseded."""
    values = {"status": UploadStatus.COMPLETED, "version": version, "last_error": None}
    if not await _end_attempt(session, completion, values):
        raise Superseded
    data = {
        "upload_id": str(completion.upload_id),
        "adapter": completion.adapter_name,
        "version": version,
    }
    await emit(session, completion.tenant_id, EventType.UPLOAD_COMPLETED, data)


async def fail(session: AsyncSession, completion: Completion, error: DomainError) -> bool:
    """End the upload as failed; False when the attempt is no longer the current one."""
    return await _end_attempt(session, completion, failed(error))


async def put_back(session: AsyncSession, completion: Completion, error: str) -> bool:
    """Wait for another attempt, or give up after the last; False when no longer current."""
    error = error[:MAX_ERROR_CHARACTERS]
    if completion.attempt >= MAX_ATTEMPTS:
        values = failed(UploadNotFinished(completion.attempt)) | {"last_error": error}
        return await _end_attempt(session, completion, values)
    values = {
        "claimed_at": None,
        "deadline_at": in_seconds(QUEUE_SECONDS * completion.attempt),
        "last_error": error,
    }
    current = _is_current(completion)
    return await move(session, completion.tenant_id, completion.upload_id, current, values)


async def ask(session: AsyncSession, tenant_id: UUID, upload_id: UUID) -> None:
    """Have the upload completed once this transaction has committed."""
    arguments = {"tenant_id": str(tenant_id), "upload_id": str(upload_id)}
    await enqueue(session, COMPLETE_UPLOAD, arguments)


async def note_cleared(session: AsyncSession, tenant_id: TenantId, upload_id: UUID) -> None:
    await move(
        session,
        tenant_id,
        upload_id,
        Upload.ended_at.is_not(None),
        {"cleared_at": func.now()},
    )


def _is_current(completion: Completion) -> ColumnElement[bool]:
    is_completing = Upload.status == UploadStatus.COMPLETING
    return is_completing & (Upload.attempts == completion.attempt) & Upload.claimed_at.is_not(None)


def failed(error: DomainError) -> dict[str, Any]:
    told = {"code": error.code, "message": error.message, "field": error.field}
    return {"status": UploadStatus.FAILED, "error": told}


async def _end_attempt(
    session: AsyncSession, completion: Completion, values: dict[str, Any]
) -> bool:
    current = _is_current(completion)
    return await end(session, completion.tenant_id, completion.upload_id, current, values)


async def end(
    session: AsyncSession,
    tenant_id: TenantId,
    upload_id: UUID,
    condition: ColumnElement[bool],
    values: dict[str, Any],
    actor: Actor = OURSELVES,
) -> bool:
    """A move to an end: never without giving the bytes back, nor without a line of the audit."""
    values = {"ended_at": func.now(), "claimed_at": None, "deadline_at": None} | values
    ended = await move(session, tenant_id, upload_id, condition, values)
    if ended:
        await quota.release(session, tenant_id, upload_id)
        error = values.get("error")
        await record(
            session,
            actor,
            f"upload.{UploadStatus(values['status']).value}",
            tenant_id=tenant_id,
            target=Target("upload", upload_id),
            after={"version": values.get("version"), "error": error and error["code"]},
        )
    return ended


async def move(
    session: AsyncSession,
    tenant_id: TenantId,
    upload_id: UUID,
    condition: ColumnElement[bool],
    values: dict[str, Any],
) -> bool:
    statement = (
        update(Upload)
        .where(Upload.tenant_id == tenant_id, Upload.id == upload_id, condition)
        .values(**values)
        .returning(Upload.id)
        .execution_options(synchronize_session=False)
    )
    return await session.scalar(statement) is not None


def in_seconds(seconds: float) -> ColumnElement[Any]:
    return func.now() + timedelta(seconds=seconds)
