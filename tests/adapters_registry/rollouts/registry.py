"""One tenant's one adapter, and the services around it, on an event loop of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import ModelNotFound
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads.registration import StoredFile, register
from loraplex.adapters_registry.versions.models import AdapterVersion, VersionStatus
from loraplex.adapters_registry.versions.repository import VersionRepository
from loraplex.adapters_registry.versions.service import Catalogue, register_base
from loraplex.engine.protocol.adapter import AdapterSpec
from loraplex.engine.protocol.identity import Digest, digest_of_bytes
from loraplex.platform.blobs import blob_key
from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.samples import TINY
from tests.adapters_registry.versions.planned import spec
from tests.platform.tenancy.signed_in import through_key

NAME = "support"


Answer = TypeVar("Answer")


class Registry:
    """One tenant's one adapter, and the services around it, on an event loop of its own."""

    def __init__(self, services: Settings) -> None:
        self.runner = asyncio.Runner()
        assert services.database_url is not None and services.database_system_url is not None
        self.database = Database(services.database_url.get_secret_value(), pool_size=1)
        self.system = Database(services.database_system_url.get_secret_value(), pool_size=1)
        self.store = ObjectStore.from_settings(services)
        self.base = msgspec.structs.replace(TINY, base_name=f"tiny-{uuid4().hex}")
        self.administration = TenantAdministration(SecretKeys.from_settings(services))
        self.principal = self.in_system(self._make_tenant)

    def close(self) -> None:
        self.runner.run(self.database.dispose())
        self.runner.run(self.system.dispose())
        self.runner.close()

    async def _make_tenant(self, session: AsyncSession) -> TenantPrincipal:
        await register_base(session, self.base)
        tenant = await self.administration.create_tenant(session, f"t-{uuid4().hex}")
        key, _ = await self.administration.create_key(session, tenant, "test")
        return through_key(tenant, key)

    def in_system(self, work: Callable[[AsyncSession], Awaitable[Answer]]) -> Answer:
        return self.runner.run(self._within(self.system, None, work))

    def mine(self, work: Callable[[AsyncSession], Awaitable[Answer]]) -> Answer:
        return self.runner.run(self._within(self.database, self.principal.tenant_id, work))

    async def _within(
        self,
        database: Database,
        tenant_id: TenantId | None,
        work: Callable[[AsyncSession], Awaitable[Answer]],
    ) -> Answer:
        async with database.unit_of_work(tenant_id) as session:
            return await work(session)

    def upload(self, content: bytes) -> int:
        """Bytes in the store, registered as a version that is then ready; its number."""
        config, weights = digest_of_bytes(b"config"), digest_of_bytes(content)
        for digest, data in ((config, b"config"), (weights, content)):
            self.store.put(blob_key(self.principal.namespace, digest), data)

        async def work(session: AsyncSession) -> int:
            base = await VersionRepository(session).base_by_name(self.base.base_name)
            assert base is not None
            files = StoredFile(config, 6), StoredFile(weights, len(content))
            view, _ = await register(session, self.principal, NAME, base, *files)
            return view.version

        number = self.mine(work)
        made: AdapterSpec = spec(weights, Digest(self.base.base_digest))
        ready = {"status": VersionStatus.READY, "spec": msgspec.to_builtins(made)}
        self.in_system(lambda session: self._update(session, number, ready))
        return number

    async def _update(self, session: AsyncSession, number: int, values: dict[str, Any]) -> None:
        mine = AdapterVersion.tenant_id == self.principal.tenant_id
        await session.execute(
            update(AdapterVersion).where(mine, AdapterVersion.number == number).values(**values)
        )

    def called(self, model: str) -> int | None:
        async def work(session: AsyncSession) -> int | None:
            return (await Catalogue().resolve(session, self.principal, model)).version

        try:
            return self.mine(work)
        except ModelNotFound:
            return None
