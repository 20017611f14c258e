"""Tenants, a base and a store, on the real services."""

import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.residency import NodeCache
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.validation import ValidationLimits
from loraplex.adapters_registry.versions.checking import VersionChecker
from loraplex.adapters_registry.versions.service import register_base
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.blob_server import Blobs
from tests.adapters_registry.caching import BUDGET_BYTES
from tests.adapters_registry.samples import TINY
from tests.platform.tenancy.signed_in import through_key

MakeTenant = Callable[[], Awaitable[TenantPrincipal]]


@pytest.fixture
def make_tenant(services: Settings, system_database: Database) -> MakeTenant:
    """Makes a tenant no other test has, signed in."""
    administration = TenantAdministration(SecretKeys.from_settings(services))

    async def make() -> TenantPrincipal:
        async with system_database.unit_of_work() as session:
            tenant = await administration.create_tenant(session, f"t-{uuid4().hex}")
            key, _ = await administration.create_key(session, tenant, "test")
            return through_key(tenant, key)

    return make


@pytest.fixture
async def tenant(make_tenant: MakeTenant) -> TenantPrincipal:
    return await make_tenant()


@pytest.fixture
async def base(system_database: Database) -> ModuleTable:
    """TINY, registered under a name no other test has."""
    table = msgspec.structs.replace(TINY, base_name=f"tiny-{uuid4().hex}")
    async with system_database.unit_of_work() as session:
        await register_base(session, table)
    return table


@pytest.fixture
def store(services: Settings) -> ObjectStore:
    return ObjectStore.from_settings(services)


@pytest.fixture
def uploads(database: Database, store: ObjectStore, base: ModuleTable) -> Uploads:
    return Uploads(database, store, base.base_name, max_upload_bytes=20_000_000)


@pytest.fixture
def checker(system_database: Database, store: ObjectStore, tmp_path: Path) -> VersionChecker:
    return VersionChecker(system_database, store, ValidationLimits(), tmp_path / "checks")


@pytest.fixture
def blobs() -> Iterator[Blobs]:
    """A store that misbehaves as it is told."""
    with Blobs() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path) -> NodeCache:
    return NodeCache(tmp_path / "cache", BUDGET_BYTES, hold_seconds=0)
