"""A tenant that uploads in parts, and the job that completes them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads import quota
from loraplex.adapters_registry.uploads.completion import UploadCompleter
from loraplex.adapters_registry.uploads.files import (
    CONFIG_NAME,
    MIN_PART_BYTES,
    WEIGHTS_NAME,
    FileDraft,
    part_count,
)
from loraplex.adapters_registry.uploads.models import Upload, UploadFile
from loraplex.adapters_registry.uploads.reader import UploadReader
from loraplex.adapters_registry.uploads.resumable import ResumableUploads
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.uploads.staging import Staging
from loraplex.adapters_registry.uploads.views import UploadView
from loraplex.platform.database.sessions import Database
from loraplex.platform.jobs import JobContext
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.conftest import MakeTenant


@dataclass
class Client:
    """One tenant's way through an upload; `files` are those of the last one opened."""

    tenant: TenantPrincipal
    resumable: ResumableUploads
    completer: UploadCompleter
    system: Database
    folder: Path
    files: Mapping[str, bytes] = field(default_factory=dict)

    def sample(self, weights_bytes: int = 1000) -> dict[str, bytes]:
        """Two files that nobody looks into before validation."""
        return {CONFIG_NAME: b"{}", WEIGHTS_NAME: bytes(range(250)) * (weights_bytes // 250)}

    def drafts(
        self, files: Mapping[str, bytes], sha256: Mapping[str, str] | None = None
    ) -> list[FileDraft]:
        return [
            FileDraft(name, len(data), (sha256 or {}).get(name)) for name, data in files.items()
        ]

    async def create(
        self, files: Mapping[str, bytes] | None = None, sha256: Mapping[str, str] | None = None
    ) -> UploadView:
        self.files = self.sample() if files is None else files
        drafts = self.drafts(self.files, sha256)
        return await self.resumable.create(self.tenant, "support", drafts)

    async def put(self, upload_id: UUID, name: str, number: int) -> None:
        (slot,) = await self.resumable.slots(self.tenant, upload_id, name, [number])
        start = (number - 1) * self.resumable.part_bytes
        path = self.folder / "part"
        await asyncio.to_thread(path.write_bytes, self.files[name][start : start + slot.size_bytes])
        await self.resumable.put_part(self.tenant, slot, path)

    async def filled(
        self, files: Mapping[str, bytes] | None = None, sha256: Mapping[str, str] | None = None
    ) -> UploadView:
        """An upload whose parts have all come."""
        view = await self.create(files, sha256)
        for file in view.files:
            for number in range(1, part_count(file.size_bytes, file.part_bytes) + 1):
                await self.put(view.id, file.name, number)
        return view

    async def completed(
        self, files: Mapping[str, bytes], sha256: Mapping[str, str] | None = None
    ) -> UploadView:
        """The end of an upload of these files, whatever it is."""
        view = await self.filled(files, sha256)
        await self.complete(view.id)
        assert await self.run_job(view.id)
        return await self.get(view.id)

    async def get(self, upload_id: UUID) -> UploadView:
        return await self.resumable.reader.get(self.tenant, upload_id)

    async def row(self, upload_id: UUID) -> Upload:
        async with self.system.unit_of_work() as session:
            return await session.get_one(Upload, upload_id)

    async def complete(self, upload_id: UUID) -> UploadView:
        return await self.resumable.complete(self.tenant, upload_id)

    async def abort(self, upload_id: UUID) -> UploadView:
        return await self.resumable.abort(self.tenant, upload_id)

    async def run_job(self, upload_id: UUID) -> bool:
        return await self.completer.complete(self.tenant.tenant_id, upload_id)

    async def usage(self) -> tuple[int, int]:
        """Stored and reserved bytes."""
        async with self.system.unit_of_work() as session:
            return (await quota.usage(session, self.tenant.tenant_id))[:2]

    async def move_clock(self, upload_id: UUID, **values: Any) -> None:
        """Change the row as time would."""
        async with self.system.unit_of_work() as session:
            await session.execute(update(Upload).where(Upload.id == upload_id).values(**values))

    async def forget_store_ids(self, upload_id: UUID) -> None:
        async with self.system.unit_of_work() as session:
            mine = update(UploadFile).where(UploadFile.upload_id == upload_id)
            await session.execute(mine.values(store_upload_id=None))

    def staged(self, upload_id: UUID) -> list[str]:
        """What the store has of an upload outside the blobs: open multipart uploads and objects."""
        s3, bucket = self.completer.store.client, self.completer.store.bucket
        prefix = f"tenants/{self.tenant.namespace}/staging/{upload_id}/"
        objects = s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
        begun = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        keys = [one["Key"] for one in [*objects, *begun]]
        return [key for key in keys if key.startswith(prefix)]


@pytest.fixture
def completer(
    system_database: Database, store: ObjectStore, uploads: Uploads, tmp_path: Path
) -> UploadCompleter:
    archives = tmp_path / "archives"
    return UploadCompleter(system_database, store, uploads.max_upload_bytes, archives)


@pytest.fixture
def resumable(database: Database, store: ObjectStore, uploads: Uploads) -> ResumableUploads:
    staging = Staging(store)
    reader = UploadReader(database, staging)
    return ResumableUploads(database, reader, staging, uploads, MIN_PART_BYTES, timedelta(hours=1))


@pytest.fixture
def client(
    tenant: TenantPrincipal,
    resumable: ResumableUploads,
    completer: UploadCompleter,
    system_database: Database,
    tmp_path: Path,
) -> Client:
    return Client(tenant, resumable, completer, system_database, tmp_path)


@pytest.fixture
async def other_client(
    make_tenant: MakeTenant,
    resumable: ResumableUploads,
    completer: UploadCompleter,
    system_database: Database,
    tmp_path: Path,
) -> Client:
    return Client(await make_tenant(), resumable, completer, system_database, tmp_path)


@pytest.fixture
def job_context(services: Settings, system_database: Database) -> JobContext:
    return JobContext(services, system_database, asyncio.Runner())
