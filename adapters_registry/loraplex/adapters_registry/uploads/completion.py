"""Completes an upload in the background: reads its bytes, hashes them, and registers what they are.

A job on role `system`. The bytes in the staging area are nobody's word but the client's until they
were read here; only then are they copied to where their digest says.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import BlobMissing, StoreUnavailable
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.scratch import scratch_folder
from loraplex.adapters_registry.uploads import lifecycle
from loraplex.adapters_registry.uploads.archives import expand
from loraplex.adapters_registry.uploads.clearing import clear
from loraplex.adapters_registry.uploads.errors import ChecksumMismatch
from loraplex.adapters_registry.uploads.files import CONFIG_NAME, WEIGHTS_NAME
from loraplex.adapters_registry.uploads.lifecycle import Completion, Superseded
from loraplex.adapters_registry.uploads.models import UploadFile
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.uploads.sources import BlobSource, FileSource, ObjectSource
from loraplex.adapters_registry.uploads.staging import Staging, staging_key
from loraplex.adapters_registry.versions.views import VersionView
from loraplex.engine.protocol.errors import DomainError, Kind
from loraplex.engine.protocol.identity import Digest
from loraplex.platform.database.sessions import Database
from loraplex.platform.leases import LeaseLost, under_lease
from loraplex.platform.switches.names import NO_UPLOADS
from loraplex.platform.switches.service import is_on
from loraplex.platform.tenancy.identity import TenantId


@dataclass(frozen=True)
class UploadCompleter:
    """Brings completing uploads to an end."""

    database: Database
    store: ObjectStore
    max_upload_bytes: int
    scratch_dir: Path
    """Where archives are opened; what a killed job left there is removed in time."""

    async def complete(self, tenant_id: TenantId, upload_id: UUID) -> bool:
        """One attempt, to completed or failed, or put back with what went wrong.

        Does nothing, and answers False, when another run has the upload or had it, and while
        uploads are off: then it waits for the sweeper to ask again. No transaction is open while
        bytes are read.
        """
        async with self.database.unit_of_work() as session:
            if await is_on(session, NO_UPLOADS):
                return False
            completion = await lifecycle.claim(session, tenant_id, upload_id)
        if completion is None:
            return False

        async def renew() -> bool:
            async with self.database.unit_of_work() as session:
                return await lifecycle.renew(session, completion)

        try:
            await under_lease(self._take_in(completion), renew)
        except (LeaseLost, Superseded):
            return False
        except DomainError as error:
            async with self.database.unit_of_work() as session:
                if error.kind is Kind.OVERLOADED:
                    return await lifecycle.put_back(session, completion, error.message)
                is_mine = await lifecycle.fail(session, completion, error)
            if not is_mine:
                return False
        except OSError as error:
            async with self.database.unit_of_work() as session:
                return await lifecycle.put_back(session, completion, f"{error}")
        with suppress(StoreUnavailable):  # the sweeper clears what is left
            await clear(
                self.database, Staging(self.store), tenant_id, completion.namespace, upload_id
            )
        return True

    async def _take_in(self, completion: Completion) -> None:
        uploads = Uploads(self.database, self.store, completion.base_name, self.max_upload_bytes)
        found = {
            file.name: await asyncio.to_thread(self._read, completion, file)
            for file in completion.files
        }
        if WEIGHTS_NAME in found:
            await self._register(uploads, completion, found[CONFIG_NAME], found[WEIGHTS_NAME])
            return
        (archive,) = found.values()
        with scratch_folder(self.scratch_dir) as folder:
            files = await asyncio.to_thread(self._expand, archive, folder, uploads.limits)
            config, weights = files[CONFIG_NAME], files[WEIGHTS_NAME]
            await self._register(uploads, completion, config, weights)

    def _expand(
        self, archive: ObjectSource, folder: Path, limits: Mapping[str, int]
    ) -> dict[str, FileSource]:
        """The files of an archive in the staging area, on disk; raises what `expand` raises."""
        path = folder / "archive"
        self.store.download(archive.key, path)
        return {name: FileSource.of(file) for name, file in expand(path, folder, limits).items()}

    async def _register(
        self, uploads: Uploads, completion: Completion, config: BlobSource, weights: BlobSource
    ) -> None:
        size_bytes = uploads.check_sizes(config.size_bytes, weights.size_bytes)
        base = await uploads.base_for(completion.adapter_name)
        async with self.database.unit_of_work() as session:
            await lifecycle.resize(session, completion, size_bytes)

        async def finish(session: AsyncSession, version: VersionView) -> None:
            await lifecycle.finish(session, completion, version.version)

        await uploads.take_in(completion, completion.adapter_name, base, config, weights, finish)

    def _read(self, completion: Completion, file: UploadFile) -> ObjectSource:
        """Put a file's parts together and read it whole; raises ChecksumMismatch."""
        staging = Staging(self.store)
        key = staging_key(completion.namespace, completion.upload_id, file.position)
        if file.store_upload_id is None:
            raise BlobMissing(key)
        staging.finish(key, file.store_upload_id, file.size_bytes)
        hasher, size_bytes = hashlib.sha256(), 0
        for chunk in staging.chunks(key):
            hasher.update(chunk)
            size_bytes += len(chunk)
        if size_bytes != file.size_bytes:
            raise StoreUnavailable(f"{size_bytes} of {file.size_bytes} bytes of {file.name}")
        found = hasher.hexdigest()
        if file.sha256 is not None and file.sha256 != found:
            raise ChecksumMismatch(file.name, file.sha256, found)
        return ObjectSource(key, Digest(f"sha256:{found}"), size_bytes)
