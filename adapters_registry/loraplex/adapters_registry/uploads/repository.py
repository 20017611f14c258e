"""Queries for resumable uploads; commits nothing."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.uploads.models import (
    OPEN,
    Upload,
    UploadFile,
    UploadPart,
    UploadStatus,
)
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.tenancy.identity import TenantId

NEWEST_UPLOADS = Keyset("uploads", Upload.created_at, Upload.id, descending=True)

FilesByUpload = Mapping[UUID, Sequence[UploadFile]]
PartsByFile = Mapping[tuple[UUID, str], Sequence[int]]


class UploadRepository:
    """One tenant's uploads."""

    def __init__(self, session: AsyncSession, tenant_id: TenantId) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def by_id(self, upload_id: UUID, *, for_update: bool = False) -> Upload | None:
        """The upload as the database has it now; perhaps locked until the transaction ends."""
        statement = select(Upload).where(Upload.tenant_id == self.tenant_id, Upload.id == upload_id)
        if for_update:
            statement = statement.with_for_update()
        return await self.session.scalar(statement.execution_options(populate_existing=True))

    async def page(
        self, wanted: PageRequest, adapter: str | None, status: UploadStatus | None
    ) -> Page[Upload]:
        """Uploads, newest first; only this adapter's and of this status where given."""
        statement = select(Upload).where(Upload.tenant_id == self.tenant_id)
        if adapter is not None:
            statement = statement.where(Upload.adapter_name == adapter)
        if status is not None:
            statement = statement.where(Upload.status == status)
        page = await NEWEST_UPLOADS.page(self.session, statement, wanted)
        return page.map(lambda row: row[0])

    async def open_uploads(self) -> int:
        """How many uploads may still become something."""
        statement = (
            select(func.count())
            .select_from(Upload)
            .where(Upload.tenant_id == self.tenant_id, Upload.status.in_(OPEN))
        )
        return (await self.session.execute(statement)).scalar_one()

    async def files(self, upload_ids: Sequence[UUID]) -> FilesByUpload:
        """The files of these uploads, in the order in which they were announced."""
        statement = (
            select(UploadFile)
            .where(UploadFile.tenant_id == self.tenant_id, UploadFile.upload_id.in_(upload_ids))
            .order_by(UploadFile.position)
        )
        found = defaultdict[UUID, list[UploadFile]](list)
        for file in await self.session.scalars(statement):
            found[file.upload_id].append(file)
        return found

    async def parts(self, upload_ids: Sequence[UUID]) -> PartsByFile:
        """The parts that came through gateways, by upload and file."""
        statement = select(UploadPart).where(
            UploadPart.tenant_id == self.tenant_id, UploadPart.upload_id.in_(upload_ids)
        )
        found = defaultdict[tuple[UUID, str], list[int]](list)
        for part in await self.session.scalars(statement):
            found[part.upload_id, part.file_name].append(part.number)
        return found
