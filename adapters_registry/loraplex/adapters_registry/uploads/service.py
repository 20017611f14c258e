"""Takes an upload in: bytes to the store first, then row and message in one transaction."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import BaseModelUnknown
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.peft_config import MAX_CONFIG_BYTES
from loraplex.adapters_registry.uploads import quota
from loraplex.adapters_registry.uploads.errors import EmptyUpload, UploadTooLarge
from loraplex.adapters_registry.uploads.files import CONFIG_NAME, WEIGHTS_NAME
from loraplex.adapters_registry.uploads.registration import Owner, StoredFile, register
from loraplex.adapters_registry.uploads.sources import (
    BlobSource,
    BytesSource,
    FileSource,
    store_once,
)
from loraplex.adapters_registry.versions.models import BaseModel
from loraplex.adapters_registry.versions.names import check_adapter_name
from loraplex.adapters_registry.versions.repository import VersionRepository
from loraplex.adapters_registry.versions.views import VersionView
from loraplex.platform.database.sessions import Database

Settle = Callable[[AsyncSession, VersionView], Awaitable[None]]
"""What else must happen in the transaction that registers; what it raises undoes all of it."""


@dataclass(frozen=True)
class Uploads:
    """The way in for adapter bytes, for adapters of the base named `base_name`."""

    database: Database
    store: ObjectStore
    base_name: str
    max_upload_bytes: int
    max_config_bytes: int = MAX_CONFIG_BYTES

    async def submit(
        self,
        owner: Owner,
        name: str,
        config: bytes,
        weights: Path,
        *,
        reservation_id: UUID | None = None,
        settle: Settle | None = None,
    ) -> tuple[VersionView, bool]:
        """Store local files as a new version of the adapter, which is made when missing.

        Answers the version and whether it is new, see `register`. Nothing is validated here; the
        version's status will tell. The bytes count against the quota: in a reservation of the
        caller's, which is released when the version is registered and stays the caller's to release
        when it is not, or in one made here.
        Raises InvalidAdapterName, EmptyUpload, UploadTooLarge, BaseModelUnknown, OtherBase,
        StorageQuotaExceeded, StoreUnavailable.
        """
        size_bytes = self.check_sizes(len(config), size_of(weights))
        if reservation_id is None:
            async with self.reserved(owner, size_bytes) as own_id:
                return await self.submit(
                    owner, name, config, weights, reservation_id=own_id, settle=settle
                )
        base = await self.base_for(name)
        async with self.database.unit_of_work(owner.tenant_id) as session:
            await quota.reserve(session, owner.tenant_id, reservation_id, size_bytes)

        async def finish(session: AsyncSession, version: VersionView) -> None:
            await quota.release(session, owner.tenant_id, reservation_id)
            if settle is not None:
                await settle(session, version)

        source = await asyncio.to_thread(FileSource.of, weights)
        return await self.take_in(owner, name, base, BytesSource(config), source, finish)

    async def take_in(
        self,
        owner: Owner,
        name: str,
        base: BaseModel,
        config: BlobSource,
        weights: BlobSource,
        settle: Settle,
    ) -> tuple[VersionView, bool]:
        """Store both files and register them as a version, together with what `settle` does.

        The sizes are checked and reserved already. Raises OtherBase, StoreUnavailable and what
        `settle` raises.
        """
        stored_config = await self.store_blob(owner, config)
        stored_weights = await self.store_blob(owner, weights)
        async with self.database.unit_of_work(owner.tenant_id) as session:
            answer = await register(session, owner, name, base, stored_config, stored_weights)
            await settle(session, answer[0])
        # Blobs that lay there without a version may have been collected until a moment ago; from
        # now on the version keeps them.
        await self.store_blob(owner, config)
        await self.store_blob(owner, weights)
        return answer

    @property
    def limits(self) -> dict[str, int]:
        """The most bytes each file may have, by name."""
        return {CONFIG_NAME: self.max_config_bytes, WEIGHTS_NAME: self.max_upload_bytes}

    @asynccontextmanager
    async def reserved(self, owner: Owner, size_bytes: int) -> AsyncIterator[UUID]:
        """Bytes of the quota, set aside for as long as the block runs; the reservation's id.

        Raises StorageQuotaExceeded.
        """
        reservation_id = uuid4()
        async with self.database.unit_of_work(owner.tenant_id) as session:
            await quota.reserve(session, owner.tenant_id, reservation_id, size_bytes)
        try:
            yield reservation_id
        finally:
            async with self.database.unit_of_work(owner.tenant_id) as session:
                await quota.release(session, owner.tenant_id, reservation_id)

    def check_sizes(self, config_bytes: int, weights_bytes: int) -> int:
        """The bytes of both files; raises EmptyUpload and UploadTooLarge."""
        sizes = {
            "adapter_config": (config_bytes, self.max_config_bytes),
            "adapter_model": (weights_bytes, self.max_upload_bytes),
        }
        for field, (size_bytes, limit_bytes) in sizes.items():
            if size_bytes == 0:
                raise EmptyUpload(field)
            if size_bytes > limit_bytes:
                raise UploadTooLarge(field, size_bytes, limit_bytes)
        return config_bytes + weights_bytes

    async def base_for(self, name: str) -> BaseModel:
        """The base of the adapter of this name; raises InvalidAdapterName and BaseModelUnknown."""
        async with self.database.unit_of_work() as session:
            rows = VersionRepository(session)
            check_adapter_name(name, [base.name for base in await rows.bases()])
            base = await rows.base_by_name(self.base_name)
        if base is None:
            raise BaseModelUnknown(self.base_name)
        return base

    async def store_blob(self, owner: Owner, source: BlobSource) -> StoredFile:
        return await asyncio.to_thread(store_once, self.store, owner, source)


def size_of(path: Path) -> int:
    return path.stat().st_size
