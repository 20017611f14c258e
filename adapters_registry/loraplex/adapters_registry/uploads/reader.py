"""What has become of a tenant's resumable uploads, and which of their parts have come."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.objects import MultipartUploadMissing
from loraplex.adapters_registry.uploads.errors import UploadNotFound
from loraplex.adapters_registry.uploads.files import part_count, part_size_of
from loraplex.adapters_registry.uploads.models import Upload, UploadFile, UploadStatus
from loraplex.adapters_registry.uploads.registration import Owner
from loraplex.adapters_registry.uploads.repository import UploadRepository
from loraplex.adapters_registry.uploads.staging import Staging, staging_key
from loraplex.adapters_registry.uploads.views import FileView, UploadView
from loraplex.platform.database.pages import Page, PageRequest
from loraplex.platform.database.sessions import Database


async def found(session: AsyncSession, owner: Owner, upload_id: UUID) -> Upload:
    """The row; raises UploadNotFound, for another tenant's as for one that never was."""
    upload = await UploadRepository(session, owner.tenant_id).by_id(upload_id)
    if upload is None:
        raise UploadNotFound(upload_id)
    return upload


@dataclass(frozen=True)
class UploadReader:
    """Reads rows, and asks the store for parts where clients send them there themselves."""

    database: Database
    staging: Staging

    async def get(self, owner: Owner, upload_id: UUID) -> UploadView:
        """One upload; raises UploadNotFound."""
        async with self.database.unit_of_work(owner.tenant_id) as session:
            upload = await found(session, owner, upload_id)
        return (await self._views(owner, [upload]))[0]

    async def page(
        self,
        owner: Owner,
        wanted: PageRequest,
        *,
        adapter: str | None = None,
        status: UploadStatus | None = None,
    ) -> Page[UploadView]:
        """The tenant's uploads, newest first; raises InvalidCursor."""
        async with self.database.unit_of_work(owner.tenant_id) as session:
            rows = UploadRepository(session, owner.tenant_id)
            page = await rows.page(wanted, adapter, status)
        return Page(await self._views(owner, page.items), page.next_cursor)

    async def _views(self, owner: Owner, uploads: Sequence[Upload]) -> list[UploadView]:
        ids = [upload.id for upload in uploads]
        async with self.database.unit_of_work(owner.tenant_id) as session:
            rows = UploadRepository(session, owner.tenant_id)
            files, parts = await rows.files(ids), await rows.parts(ids)
        views = []
        for upload in uploads:
            shown = [
                FileView.of(
                    file,
                    await self._received(owner, upload, file, parts[upload.id, file.name]),
                )
                for file in files[upload.id]
            ]
            views.append(UploadView.of(upload, shown))
        return views

    async def _received(
        self, owner: Owner, upload: Upload, file: UploadFile, through_gateways: Sequence[int]
    ) -> Sequence[int]:
        """Which parts have come: as the table says, or the store where clients reach it."""
        if upload.status in (UploadStatus.COMPLETING, UploadStatus.COMPLETED):
            return range(1, part_count(file.size_bytes, file.part_bytes) + 1)
        is_asked = self.staging.public is not None and upload.status == UploadStatus.PENDING
        if not is_asked or file.store_upload_id is None:
            return through_gateways
        key = staging_key(owner.namespace, upload.id, file.position)
        try:
            found = await asyncio.to_thread(self.staging.parts, key, file.store_upload_id)
        except MultipartUploadMissing:
            return ()
        return [
            part.number
            for part in found
            if part.size_bytes == part_size_of(part.number, file.size_bytes, file.part_bytes)
        ]
