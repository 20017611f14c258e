"""Collecting bytes beside a backup: neither sees half of what the other does."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import select

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads.models import Blob
from loraplex.adapters_registry.versions.collection import Collector
from loraplex.engine.protocol.identity import Digest
from loraplex.platform.blobs import DELETION_LOCK, blob_key
from loraplex.platform.database.sessions import Database
from loraplex.platform.database.urls import libpq_url
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.principals import TenantPrincipal

DIGEST = Digest("sha256:" + "cd" * 32)


@pytest.fixture
def backup(services: Settings) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """The connection that a backup would hold its lock on."""
    assert services.database_system_url is not None
    url = libpq_url(services.database_system_url.get_secret_value())
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


async def is_known(system: Database, tenant: TenantPrincipal) -> bool:
    async with system.unit_of_work() as session:
        mine = select(Blob.digest).where(Blob.tenant_id == tenant.tenant_id)
        return await session.scalar(mine) is not None


async def test_nothing_is_collected_while_a_backup_copies_and_a_backup_waits_for_who_collects(
    tenant: TenantPrincipal,
    system_database: Database,
    store: ObjectStore,
    backup: psycopg.Connection[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = blob_key(tenant.namespace, DIGEST)
    store.ensure_bucket()
    store.put(key, b"unused")
    async with system_database.unit_of_work() as session:
        session.add(Blob(tenant_id=tenant.tenant_id, digest=DIGEST, size_bytes=6))
    collector = Collector(system_database, store, timedelta(0))
    backup.execute("SELECT pg_advisory_lock(%s)", [DELETION_LOCK])
    assert await collector.collect() == 0
    assert store.keys(key) == [key]
    backup.execute("SELECT pg_advisory_unlock(%s)", [DELETION_LOCK])

    delete, can_begin = ObjectStore.delete, []

    def look_and_delete(self: ObjectStore, key: str) -> None:
        delete(self, key)
        taken = backup.execute("SELECT pg_try_advisory_lock(%s)", [DELETION_LOCK]).fetchone()
        can_begin.append(taken)

    monkeypatch.setattr(ObjectStore, "delete", look_and_delete)
    assert await collector.collect() >= 1
    assert set(can_begin) == {(False,)}, "the object is gone, and its row not yet"
    assert store.keys(key) == []
    assert not await is_known(system_database, tenant)
