"""Takes an upload in: bytes to the store first, then row and message in one transaction."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import SEEK_END, BytesIO
from pathlib import Path

from loraplex.adapters_registry.errors import (
    BaseModelUnknown,
    EmptyUpload,
    OtherBase,
    UploadTooLarge,
)
from loraplex.adapters_registry.objects import ObjectStore, blob_key
from loraplex.adapters_registry.peft import adapter_digest
from loraplex.adapters_registry.peft_config import MAX_CONFIG_BYTES
from loraplex.adapters_registry.versions import lifecycle
from loraplex.adapters_registry.versions.models import AdapterVersion, BaseModel
from loraplex.adapters_registry.versions.names import check_adapter_name
from loraplex.adapters_registry.versions.repository import VersionRepository
from loraplex.adapters_registry.versions.views import VersionView
from loraplex.engine.protocol.identity import Digest, digest_of_bytes, digest_of_file
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.principals import TenantPrincipal


@dataclass(frozen=True)
class Uploads:
    """The way in for adapter bytes, for adapters of the base named `base_name`."""

    database: Database
    store: ObjectStore
    base_name: str
    max_upload_bytes: int
    max_config_bytes: int = MAX_CONFIG_BYTES

    async def submit(
        self, principal: TenantPrincipal, name: str, config: bytes, weights: Path
    ) -> tuple[VersionView, bool]:
        """Store an upload as a new version of the adapter, which is made when missing.

        Answers the version and whether it is new: identical bytes are the version that exists,
        whatever became of it (what the platform failed to check is checked again). Nothing is
        validated here; the version's status will tell.
        Raises InvalidAdapterName, EmptyUpload, UploadTooLarge, BaseModelUnknown, OtherBase,
        StoreUnavailable.
        """
        size_bytes = self.check_sizes(config, weights)
        base = await self.base_for(name)
        config_digest = digest_of_bytes(config)
        weights_digest = await asyncio.to_thread(digest_of_file, weights)
        await self.store_blob(principal, config_digest, config)
        await self.store_blob(principal, weights_digest, weights)
        base_digest = Digest(base.digest)
        async with self.database.unit_of_work(principal.tenant_id) as session:
            rows = VersionRepository(session)
            adapter = await rows.lock_adapter(principal.tenant_id, name, base)
            if adapter.base_model_id != base.id:
                raise OtherBase(name, self.base_name)
            digest = adapter_digest(base_digest, config_digest, weights_digest)
            version = await rows.identical(adapter, digest)
            is_new = version is None
            if version is None:
                version = AdapterVersion(
                    tenant_id=principal.tenant_id,
                    adapter_id=adapter.id,
                    number=await rows.next_number(adapter),
                    digest=digest,
                    base_digest=base_digest,
                    config_digest=config_digest,
                    weights_digest=weights_digest,
                    size_bytes=size_bytes,
                    deadline_at=datetime.now(UTC) + timedelta(seconds=lifecycle.QUEUE_SECONDS),
                )
                session.add(version)
                await session.flush()
                await lifecycle.ask(session, version)
            else:
                await lifecycle.reopen(session, version)
            return VersionView.of(version, principal.tenant_name, name), is_new

    def check_sizes(self, config: bytes, weights: Path) -> int:
        """The bytes of both files; raises EmptyUpload and UploadTooLarge."""
        sizes = {
            "adapter_config": (len(config), self.max_config_bytes),
            "adapter_model": (weights.stat().st_size, self.max_upload_bytes),
        }
        for field, (size_bytes, limit_bytes) in sizes.items():
            if size_bytes == 0:
                raise EmptyUpload(field)
            if size_bytes > limit_bytes:
                raise UploadTooLarge(field, size_bytes, limit_bytes)
        return sum(size_bytes for size_bytes, _ in sizes.values())

    async def base_for(self, name: str) -> BaseModel:
        async with self.database.unit_of_work() as session:
            rows = VersionRepository(session)
            check_adapter_name(name, [base.name for base in await rows.bases()])
            base = await rows.base_by_name(self.base_name)
        if base is None:
            raise BaseModelUnknown(self.base_name)
        return base

    async def store_blob(
        self, principal: TenantPrincipal, digest: Digest, source: bytes | Path
    ) -> None:
        """Put bytes under their digest, unless the tenant has stored the same before."""
        await asyncio.to_thread(put_once, self.store, blob_key(principal.namespace, digest), source)


def put_once(store: ObjectStore, key: str, source: bytes | Path) -> None:
    with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        if store.size_bytes(key) != file.seek(0, SEEK_END):
            file.seek(0)
            store.put(key, file)
