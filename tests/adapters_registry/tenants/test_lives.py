"""A tenant with everything is exported, and deleted: what is left of it is a bill without names."""

import asyncio
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from msgspec import structs
from sqlalchemy import func, select, text, update

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.tenants.catalogue import KEPT, SCRUBBED, tenant_tables
from loraplex.adapters_registry.tenants.deleting import Deleter
from loraplex.adapters_registry.tenants.exporting import Exporter
from loraplex.adapters_registry.tenants.tasks import sweep_tenants
from loraplex.adapters_registry.uploads.models import Blob
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.uploads.sources import BytesSource, FileSource
from loraplex.adapters_registry.versions.service import register_base
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.platform.admission.models import Reservation
from loraplex.platform.audit.actors import Actor
from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.blobs import DELETION_LOCK, blob_key
from loraplex.platform.database.sessions import Database
from loraplex.platform.database.urls import libpq_url
from loraplex.platform.jobs import JobContext
from loraplex.platform.lifecycle import service
from loraplex.platform.lifecycle.errors import ExportNotReady, TenantGoing
from loraplex.platform.lifecycle.models import TenantDeletion
from loraplex.platform.people.models import Membership, User
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.errors import TenantNameTaken
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import ApiKey
from tests.adapters_registry.samples import TINY, sample

ACTOR = Actor.system("test")
WEIGHTS = b"the weights of an adapter"
DIGEST = Digest("sha256:" + "ab" * 32)


@dataclass
class Customer:
    id: UUID
    name: str
    namespace: TenantNamespace
    key_id: UUID


@pytest.fixture
def secret_keys(services: Settings) -> SecretKeys:
    return SecretKeys.from_settings(services)


@pytest.fixture
def store(services: Settings) -> ObjectStore:
    store = ObjectStore.from_settings(services)
    store.ensure_bucket()
    return store


@pytest.fixture
async def customer(
    system_database: Database, secret_keys: SecretKeys, store: ObjectStore
) -> Customer:
    """A tenant with a key, a member, a blob, an upload that never ended, and a bill."""
    administration = TenantAdministration(secret_keys)
    async with system_database.unit_of_work() as session:
        tenant = await administration.create_tenant(session, f"t-{uuid4().hex}")
        key, _ = await administration.create_key(session, tenant, "production")
        await administration.create_key(session, tenant, "unused")
        user = User(email=f"{uuid4().hex}@example.com", display_name="Ada")
        session.add(user)
        await session.flush()
        session.add(
            Membership(tenant_id=tenant.id, user_id=user.id, role="owner", source="operator")
        )
        session.add(Blob(tenant_id=tenant.id, digest=DIGEST, size_bytes=len(WEIGHTS)))
        await session.flush()
        await session.execute(
            text(
                "INSERT INTO ledger (tenant_id, request_id, api_key_id, model, prompt_tokens,"
                " cached_tokens, output_tokens, outcome, admitted_at)"
                " VALUES (:tenant, 'r1', :key, :model, 3, 0, 4, 'completed', now())"
            ),
            {"tenant": tenant.id, "key": key.id, "model": f"{tenant.name}/support"},
        )
    namespace = TenantNamespace(tenant.namespace)
    store.put(blob_key(namespace, DIGEST), WEIGHTS)
    store.client.create_multipart_upload(
        Bucket=store.bucket, Key=f"tenants/{namespace}/staging/abandoned"
    )
    return Customer(tenant.id, tenant.name, namespace, key.id)


async def exported(
    customer: Customer, system: Database, store: ObjectStore, scratch: Path
) -> tuple[UUID, Path]:
    async with system.unit_of_work() as session:
        tenant = await service.find_tenant(session, customer.name)
        export = await service.request_export(session, ACTOR, tenant)
        with pytest.raises(ExportNotReady):
            await service.downloadable(session, tenant, export.id)
    exporter = Exporter(system, store, scratch)
    assert await exporter.export(export.id)
    assert not await exporter.export(export.id), "it is done"
    path = scratch / "archive.tar.gz"
    store.download(service.export_key(customer.namespace, export.id), path)
    return export.id, path


async def test_an_export_can_be_read_back(
    customer: Customer, system_database: Database, store: ObjectStore, tmp_path: Path
) -> None:
    export_id, path = await exported(customer, system_database, store, tmp_path)
    with tarfile.open(path) as archive:
        files = {name: archive.extractfile(name) for name in archive.getnames()}
        read = {name: file.read() for name, file in files.items() if file is not None}
    told = json.loads(read["export.json"])
    assert (told["format"], told["tenant"]) == ("loraplex-tenant-export/1", customer.name)
    assert told["missing_blobs"] == []
    assert read[f"blobs/{DIGEST.removeprefix('sha256:')}"] == WEIGHTS
    tables: dict[str, list[dict[str, Any]]] = {
        Path(name).stem: [json.loads(line) for line in data.splitlines()]
        for name, data in read.items()
        if name.startswith("tables/")
    }
    assert {name: len(rows) for name, rows in tables.items()} == told["rows"]
    async with system_database.unit_of_work() as session:
        known = {one.name for one in await tenant_tables(session)}
        for name in known:
            count = await session.scalar(
                text(f'SELECT count(*) FROM "{name}" WHERE tenant_id = :tenant'),
                {"tenant": customer.id},
            )
            assert told["rows"][name] == count, name
    assert tables["tenants"][0]["name"] == customer.name
    assert {row["name"] for row in tables["api_keys"]} == {"production", "unused"}
    assert tables["ledger"][0]["output_tokens"] == 4
    everything = b"".join(read.values())
    assert b"key_hash" not in everything
    assert b"token_hash" not in everything
    async with system_database.unit_of_work() as session:
        tenant = await service.find_tenant(session, customer.name)
        export = await service.downloadable(session, tenant, export_id)
        assert export.size_bytes == path.stat().st_size


async def begin_deletion(customer: Customer, system: Database) -> None:
    async with system.unit_of_work() as session:
        tenant = await service.find_tenant(session, customer.name)
        await service.begin_deletion(session, ACTOR, tenant, confirm=customer.name)


async def let_lease_end(customer: Customer, system: Database) -> None:
    async with system.unit_of_work() as session:
        mine = update(TenantDeletion).where(TenantDeletion.tenant_id == customer.id)
        await session.execute(mine.values(deadline_at=func.now()))


async def test_a_deletion_leaves_a_bill_without_names(
    customer: Customer,
    system_database: Database,
    store: ObjectStore,
    secret_keys: SecretKeys,
    tmp_path: Path,
) -> None:
    await exported(customer, system_database, store, tmp_path)
    others_key = f"tenants/{uuid4().hex}/staging/going-on"
    store.client.create_multipart_upload(Bucket=store.bucket, Key=others_key)
    await begin_deletion(customer, system_database)
    deleter = Deleter(system_database, store, secret_keys)
    assert await deleter.delete(customer.id)
    assert not await deleter.delete(customer.id), "it is done"

    assert store.keys(f"tenants/{customer.namespace}/") == []
    assert store.multipart_uploads(f"tenants/{customer.namespace}/") == []
    assert store.multipart_uploads(others_key), "another tenant's upload goes on"
    async with system_database.unit_of_work() as session:
        for one in await tenant_tables(session):
            rows = text(f'SELECT * FROM "{one.name}" WHERE tenant_id = :tenant')
            found = (await session.execute(rows, {"tenant": customer.id})).mappings().all()
            assert not found or one.name in KEPT | SCRUBBED, one.name
            assert customer.name not in str(found), one.name
            assert "production" not in str(found), one.name
        lines = (
            await session.scalars(select(AuditEvent).where(AuditEvent.tenant_id == customer.id))
        ).all()
        assert {line.action for line in lines} >= {"api_key.created", "tenant.deleted"}
        assert str(customer.key_id) in {line.target_id for line in lines}
        assert {line.actor_label for line in lines} == {"setup", "test"}, "who is not the tenant's"
        (entry,) = (
            await session.execute(
                text("SELECT * FROM ledger WHERE tenant_id = :tenant"), {"tenant": customer.id}
            )
        ).mappings()
        assert (entry["model"], entry["api_key_id"]) == ("deleted", customer.key_id)
        assert (entry["prompt_tokens"], entry["output_tokens"]) == (3, 4)
        (key,) = (
            await session.scalars(select(ApiKey).where(ApiKey.tenant_id == customer.id))
        ).all()
        assert (key.id, key.name, key.label) == (customer.key_id, "deleted", "deleted")
        tenant = await service.find_tenant(session, str(customer.id))
        assert (tenant.state, tenant.name) == ("deleted", f"deleted-{customer.id}")
    with pytest.raises(TenantNameTaken):
        async with system_database.unit_of_work() as session:
            await TenantAdministration(secret_keys).create_tenant(session, customer.name)


async def test_the_log_of_a_tenant_that_stays_cannot_be_changed_by_this_way(
    customer: Customer, system_database: Database
) -> None:
    async with system_database.unit_of_work() as session:
        mine = {"tenant": customer.id}
        await session.execute(text("SELECT gateway.pseudonymise_audit(:tenant)"), mine)
        names = select(AuditEvent.target_name).where(AuditEvent.tenant_id == customer.id)
        assert customer.name in (await session.scalars(names)).all()


async def test_every_table_of_a_tenant_can_be_purged_or_is_kept_on_purpose(
    system_database: Database,
) -> None:
    async with system_database.unit_of_work() as session:
        for one in await tenant_tables(session):
            may_delete = await session.scalar(
                text("SELECT has_table_privilege(current_user, :name, 'DELETE')"),
                {"name": one.name},
            )
            assert may_delete or one.name in KEPT, one.name


async def test_a_deletion_waits_for_calls_and_goes_on_after_a_death(
    customer: Customer,
    system_database: Database,
    store: ObjectStore,
    secret_keys: SecretKeys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deleter = Deleter(system_database, store, secret_keys)
    async with system_database.unit_of_work() as session:
        session.add(
            Reservation(
                tenant_id=customer.id,
                request_id="running",
                gateway_id="g",
                api_key_id=customer.key_id,
                expires_at=func.now(),
            )
        )
    await begin_deletion(customer, system_database)
    assert not await deleter.delete(customer.id), "a call runs"
    async with system_database.unit_of_work() as session:
        await session.execute(
            text("DELETE FROM reservations WHERE tenant_id = :tenant"), {"tenant": customer.id}
        )
    assert not await deleter.delete(customer.id), "the first run may still be at it"

    # It dies before it deletes rows, before it deletes an object, before it looks for more, and
    # before the last step.

    def die(*_: object) -> None:
        raise ProcessDied

    async def die_late(*_: object) -> None:
        raise ProcessDied

    for target, name, death in (
        (Deleter, "_purge_batch", die_late),
        (ObjectStore, "delete", die),
        (ObjectStore, "keys", die),
        (Deleter, "_take_names", die_late),
    ):
        await let_lease_end(customer, system_database)
        with monkeypatch.context() as patched:
            patched.setattr(target, name, death)
            with pytest.raises(ProcessDied):
                await deleter.delete(customer.id)
    await let_lease_end(customer, system_database)
    assert await deleter.delete(customer.id)
    async with system_database.unit_of_work() as session:
        tenant = await service.find_tenant(session, str(customer.id))
        going = await service.find_deletion(session, tenant)
    assert going is not None
    assert going.finished_at is not None
    assert going.last_error is None


async def test_no_object_goes_while_a_row_speaks_of_it_or_a_backup_copies(
    customer: Customer,
    system_database: Database,
    services: Settings,
    store: ObjectStore,
    secret_keys: SecretKeys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert services.database_system_url is not None
    url = libpq_url(services.database_system_url.get_secret_value())
    key = blob_key(customer.namespace, DIGEST)
    delete, rows_left = ObjectStore.delete, []
    await begin_deletion(customer, system_database)
    deleter = Deleter(system_database, store, secret_keys)
    with psycopg.connect(url, autocommit=True) as other:

        def look_and_delete(self: ObjectStore, key: str) -> None:
            mine = "SELECT count(*) FROM blobs WHERE tenant_id = %s"
            rows_left.append(other.execute(mine, [customer.id]).fetchone())
            taken = other.execute("SELECT pg_try_advisory_lock(%s)", [DELETION_LOCK]).fetchone()
            assert taken == (False,), "a backup that begins now waits"
            delete(self, key)

        monkeypatch.setattr(ObjectStore, "delete", look_and_delete)
        other.execute("SELECT pg_advisory_lock(%s)", [DELETION_LOCK])
        assert not await deleter.delete(customer.id), "a backup copies"
        assert store.keys(f"tenants/{customer.namespace}/") == [key]
        other.execute("SELECT pg_advisory_unlock(%s)", [DELETION_LOCK])
        await let_lease_end(customer, system_database)
        assert await deleter.delete(customer.id)
    assert rows_left == [(0,)]
    assert store.keys(f"tenants/{customer.namespace}/") == []


async def test_an_upload_that_ends_too_late_is_refused_and_leaves_no_bytes(
    customer: Customer,
    system_database: Database,
    services: Settings,
    store: ObjectStore,
    secret_keys: SecretKeys,
    tmp_path: Path,
) -> None:
    base = structs.replace(TINY, base_name=f"tiny-{uuid4().hex}")
    async with system_database.unit_of_work() as session:
        await register_base(session, base)
    uploads = Uploads(system_database, store, base.base_name, 10**6)
    config, weights = sample().write(tmp_path)
    owner = Owned(TenantId(customer.id), customer.name, customer.namespace)

    async def settle(*_: object) -> None:
        raise AssertionError("nothing is registered")

    await begin_deletion(customer, system_database)
    assert await Deleter(system_database, store, secret_keys).delete(customer.id)
    with pytest.raises(TenantGoing):
        await uploads.take_in(
            owner,
            "support",
            await uploads.base_for("support"),
            BytesSource(config),
            FileSource.of(weights),
            settle,
        )
    async with system_database.unit_of_work() as session:
        mine = Blob.tenant_id == customer.id
        assert (await session.scalars(select(Blob.digest).where(mine))).all() == []
    assert store.keys(f"tenants/{customer.namespace}/") != [], "they came before the refusal"
    runner = asyncio.Runner()
    await sweep_tenants(JobContext(services, system_database, runner))
    assert store.keys(f"tenants/{customer.namespace}/") == []


@dataclass(frozen=True)
class Owned:
    tenant_id: TenantId
    tenant_name: str
    namespace: TenantNamespace


class ProcessDied(BaseException):
    """Nothing catches it, as nothing catches a kill."""
