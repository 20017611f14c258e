"""Uploads in parts, for a gateway: opened, filled in any order, completed or aborted.

Completing only asks: a job reads the bytes, so `complete` answers alike whatever they are.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy import func, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import StoreUnavailable
from loraplex.adapters_registry.objects import MultipartUploadMissing, ObjectStore
from loraplex.adapters_registry.uploads import lifecycle, quota
from loraplex.adapters_registry.uploads.clearing import clear
from loraplex.adapters_registry.uploads.errors import (
    TooManyOpenUploads,
    UnknownPart,
    UnknownUploadFile,
    UploadEnded,
    UploadIncomplete,
    UploadLost,
)
from loraplex.adapters_registry.uploads.files import (
    FileDraft,
    check_files,
    part_bytes_of,
    part_count,
    part_size_of,
)
from loraplex.adapters_registry.uploads.models import (
    Upload,
    UploadFile,
    UploadPart,
    UploadStatus,
)
from loraplex.adapters_registry.uploads.reader import UploadReader, found
from loraplex.adapters_registry.uploads.registration import Owner
from loraplex.adapters_registry.uploads.repository import UploadRepository
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.uploads.staging import PartSlot, Staging, staging_key
from loraplex.adapters_registry.uploads.views import UploadView
from loraplex.platform.admission.limits import limits_of
from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.clock import transaction_time
from loraplex.platform.database.sessions import Database
from loraplex.platform.settings import Settings
from loraplex.platform.switches.service import refuse_if_uploads_are_off


@dataclass(frozen=True)
class ResumableUploads:
    """One gateway's resumable uploads."""

    database: Database
    reader: UploadReader
    staging: Staging
    uploads: Uploads
    part_bytes: int
    lifetime: timedelta

    @classmethod
    def from_settings(
        cls, database: Database, uploads: Uploads, settings: Settings
    ) -> "ResumableUploads":
        """Clients send parts to the store where the settings say that they reach it."""
        public = None
        if settings.s3_public_endpoint is not None:
            changed = {"s3_endpoint": settings.s3_public_endpoint}
            public = ObjectStore.from_settings(settings.model_copy(update=changed))
        staging = Staging(uploads.store, public)
        return cls(
            database,
            UploadReader(database, staging),
            staging,
            uploads,
            settings.upload_part_bytes,
            timedelta(seconds=settings.upload_expiry_seconds),
        )

    async def create(
        self,
        owner: Owner,
        adapter: str,
        files: Sequence[FileDraft],
        actor: Actor = lifecycle.OURSELVES,
    ) -> UploadView:
        """Open an upload and reserve its bytes.

        Raises WrongUploadFiles, EmptyUpload, UploadTooLarge, InvalidAdapterName, BaseModelUnknown,
        TooManyOpenUploads, StorageQuotaExceeded, StoreUnavailable; nothing is reserved then.
        """
        check_files(files, self.uploads.max_config_bytes, self.uploads.max_upload_bytes)
        base = await self.uploads.base_for(adapter)
        upload_id = uuid4()
        async with self.database.unit_of_work(owner.tenant_id) as session:
            await self._make_room(session, owner, upload_id, files)
            session.add(
                Upload(
                    id=upload_id,
                    tenant_id=owner.tenant_id,
                    adapter_name=adapter,
                    base_name=base.name,
                    expires_at=func.now() + self.lifetime,
                )
            )
            await session.flush()
            for position, file in enumerate(files):
                session.add(
                    UploadFile(
                        tenant_id=owner.tenant_id,
                        upload_id=upload_id,
                        name=file.name,
                        position=position,
                        size_bytes=file.size_bytes,
                        part_bytes=part_bytes_of(file.size_bytes, self.part_bytes),
                        sha256=file.sha256,
                    )
                )
            await record(
                session,
                actor,
                "upload.created",
                tenant_id=owner.tenant_id,
                target=Target("upload", upload_id, adapter),
                after={"files": {file.name: file.size_bytes for file in files}},
            )
        try:
            await self._begin(owner, upload_id, files)
        except StoreUnavailable:
            await self.abort(owner, upload_id)
            raise
        return await self.reader.get(owner, upload_id)

    async def slots(
        self, owner: Owner, upload_id: UUID, file: str, numbers: Sequence[int]
    ) -> list[PartSlot]:
        """Where these parts go.

        Raises UploadsOff, UploadNotFound, UploadEnded, UnknownUploadFile, UnknownPart.
        """
        async with self.database.unit_of_work(owner.tenant_id) as session:
            await refuse_if_uploads_are_off(session)
            upload = await found(session, owner, upload_id)
            await must_be_pending(session, upload)
            files = (await UploadRepository(session, owner.tenant_id).files([upload_id]))[upload_id]
        row = next((one for one in files if one.name == file), None)
        if row is None:
            raise UnknownUploadFile(file, [one.name for one in files])
        if row.store_upload_id is None:
            raise StoreUnavailable("the upload was not opened at the store; make another")
        count = part_count(row.size_bytes, row.part_bytes)
        for number in numbers:
            if not 1 <= number <= count:
                raise UnknownPart(file, number, count)
        key = staging_key(owner.namespace, upload_id, row.position)
        return [
            PartSlot(
                upload_id=upload_id,
                file=file,
                number=number,
                size_bytes=part_size_of(number, row.size_bytes, row.part_bytes),
                key=key,
                store_upload_id=row.store_upload_id,
            )
            for number in numbers
        ]

    async def put_part(self, owner: Owner, slot: PartSlot, body: Path) -> None:
        """Store a part that has come whole; the same part again replaces it.

        Raises UploadEnded, UploadLost (and ends the upload).
        """
        try:
            await asyncio.to_thread(self._send, slot, body)
        except MultipartUploadMissing:
            async with self.database.unit_of_work(owner.tenant_id) as session:
                was_pending = await lifecycle.lose(session, owner.tenant_id, slot.upload_id)
                upload = await found(session, owner, slot.upload_id)
            raise UploadLost() if was_pending else UploadEnded(upload.status) from None
        async with self.database.unit_of_work(owner.tenant_id) as session:
            upload = await found(session, owner, slot.upload_id)
            await must_be_pending(session, upload)
            await session.execute(
                insert(UploadPart)
                .values(
                    tenant_id=owner.tenant_id,
                    upload_id=slot.upload_id,
                    file_name=slot.file,
                    number=slot.number,
                )
                .on_conflict_do_nothing()
            )

    async def complete(self, owner: Owner, upload_id: UUID) -> UploadView:
        """Ask for the upload's completion, once however often it is called.

        Raises UploadNotFound, UploadIncomplete, UploadsOff, and UploadEnded when it was aborted or
        expired.
        """
        view = await self.reader.get(owner, upload_id)
        if view.status is UploadStatus.PENDING:
            for file in view.files:
                every = range(1, part_count(file.size_bytes, file.part_bytes) + 1)
                if missing := sorted(set(every) - set(file.parts_received)):
                    raise UploadIncomplete(file.name, missing)
            async with self.database.unit_of_work(owner.tenant_id) as session:
                await refuse_if_uploads_are_off(session)
                await lifecycle.begin_completing(session, owner.tenant_id, upload_id)
            view = await self.reader.get(owner, upload_id)
        if view.status is UploadStatus.PENDING:  # past its time, and not swept yet
            raise UploadEnded(UploadStatus.EXPIRED.value)
        if view.status in (UploadStatus.ABORTED, UploadStatus.EXPIRED):
            raise UploadEnded(view.status.value)
        return view

    async def abort(
        self, owner: Owner, upload_id: UUID, actor: Actor = lifecycle.OURSELVES
    ) -> UploadView:
        """End a pending upload, once however often it is called; its bytes are released at once.

        Raises UploadNotFound, and UploadEnded when it is completing or has ended otherwise.
        """
        async with self.database.unit_of_work(owner.tenant_id) as session:
            upload = await found(session, owner, upload_id)
            is_mine = await lifecycle.abort(session, owner.tenant_id, upload_id, actor)
        if not is_mine and upload.status != UploadStatus.ABORTED:
            raise UploadEnded(upload.status)
        with suppress(StoreUnavailable):  # the sweeper clears what is left
            await clear(self.database, self.staging, owner.tenant_id, owner.namespace, upload_id)
        return await self.reader.get(owner, upload_id)

    async def _make_room(
        self, session: AsyncSession, owner: Owner, upload_id: UUID, files: Sequence[FileDraft]
    ) -> None:
        size_bytes = sum(file.size_bytes for file in files)
        # The reservation's lock also keeps the count below true until this transaction ends.
        await quota.reserve(session, owner.tenant_id, upload_id, size_bytes, lease=None)
        open_uploads = await UploadRepository(session, owner.tenant_id).open_uploads()
        most = (await limits_of(session, owner.tenant_id)).max_open_uploads
        if most is not None and open_uploads >= most:
            raise TooManyOpenUploads(most, open_uploads)

    async def _begin(self, owner: Owner, upload_id: UUID, files: Sequence[FileDraft]) -> None:
        for position, file in enumerate(files):
            key = staging_key(owner.namespace, upload_id, position)
            store_upload_id = await asyncio.to_thread(self.staging.begin, key)
            async with self.database.unit_of_work(owner.tenant_id) as session:
                await session.execute(
                    update(UploadFile)
                    .where(
                        UploadFile.tenant_id == owner.tenant_id,
                        UploadFile.upload_id == upload_id,
                        UploadFile.name == file.name,
                    )
                    .values(store_upload_id=store_upload_id)
                )

    def _send(self, slot: PartSlot, body: Path) -> None:
        with body.open("rb") as file:
            self.staging.put_part(slot, file)


async def must_be_pending(session: AsyncSession, upload: Upload) -> None:
    """Raise UploadEnded unless parts may be sent."""
    if upload.status != UploadStatus.PENDING:
        raise UploadEnded(upload.status)
    if await transaction_time(session) >= upload.expires_at:
        raise UploadEnded(UploadStatus.EXPIRED.value)
