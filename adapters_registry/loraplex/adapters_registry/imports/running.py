"""One import from claim to version: fetch to a local folder, hand over to the registry."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.imports import lifecycle, turns
from loraplex.adapters_registry.imports.fetching import Progress, SourceFetcher
from loraplex.adapters_registry.imports.lifecycle import Attempt
from loraplex.adapters_registry.imports.service import SECRET_PURPOSE
from loraplex.adapters_registry.imports.sources import CONFIG_FILE, WEIGHTS_FILE, decode
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.scratch import scratch_folder
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.versions.views import VersionView
from loraplex.engine.protocol.errors import DomainError, Kind
from loraplex.platform.database.sessions import Database
from loraplex.platform.leases import LeaseLost, under_lease
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.switches.names import NO_UPLOADS
from loraplex.platform.switches.service import is_on
from loraplex.platform.tenancy.identity import TenantId


@dataclass(frozen=True)
class ImportRunner:
    """Runs imports, on role `system`. `slots` is how many of them run at once, everywhere."""

    database: Database
    store: ObjectStore
    secrets: SecretKeys
    fetcher: SourceFetcher
    scratch_dir: Path
    slots: int

    async def run(self, tenant_id: TenantId, import_id: UUID) -> bool:
        """Bring a queued import to completed or failed, or put it back with what went wrong.

        Does nothing, and answers False, when another run has it or had it, when it is not its
        turn, and while uploads are off. What ends makes room: the next in turn is asked for.
        """
        async with self.database.unit_of_work() as session:
            if await is_on(session, NO_UPLOADS):
                return False
            attempt = await lifecycle.begin(session, tenant_id, import_id, self.slots)
        if attempt is None:
            return False
        try:
            with scratch_folder(self.scratch_dir) as folder:
                await self._under_lease(attempt, Progress(folder))
        except LeaseLost:
            return False
        except (DomainError, OSError) as error:
            async with self.database.unit_of_work() as session:
                await self._settle(session, attempt, error)
        async with self.database.unit_of_work() as session:
            await turns.ask_next(session, self.slots)
        return True

    async def _under_lease(self, attempt: Attempt, progress: Progress) -> None:
        async def renew() -> bool:
            async with self.database.unit_of_work() as session:
                return await lifecycle.renew(session, attempt, progress.fetched_bytes())

        await under_lease(self._import(attempt, progress), renew)

    async def _import(self, attempt: Attempt, progress: Progress) -> None:
        async def reserve(size_bytes: int) -> None:
            async with self.database.unit_of_work() as session:
                await lifecycle.reserve(session, attempt, size_bytes)

        async def complete(session: AsyncSession, version: VersionView) -> None:
            fetched_bytes = progress.fetched_bytes()
            await lifecycle.complete(session, attempt, version.version, fetched_bytes)

        folder = progress.folder
        source = decode(self.secrets.decrypt(SECRET_PURPOSE, attempt.sealed_source))
        await self.fetcher.fetch(source, folder, reserve)
        uploads = Uploads(
            self.database, self.store, attempt.base_name, self.fetcher.max_weights_bytes
        )
        await uploads.submit(
            attempt,
            attempt.adapter_name,
            await asyncio.to_thread((folder / CONFIG_FILE).read_bytes),
            folder / WEIGHTS_FILE,
            reservation_id=attempt.import_id,
            settle=complete,
        )

    async def _settle(
        self, session: AsyncSession, attempt: Attempt, error: DomainError | OSError
    ) -> None:
        if isinstance(error, DomainError) and error.kind is not Kind.OVERLOADED:
            await lifecycle.fail(session, attempt, error)
        else:
            await lifecycle.put_back(session, attempt, f"{error}")
