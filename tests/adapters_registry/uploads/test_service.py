import asyncio
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import select

from loraplex.adapters_registry.errors import (
    BaseModelUnknown,
    InvalidAdapterName,
    ModelNotFound,
    OtherBase,
    StoreUnavailable,
)
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.peft import adapter_digest, spec_from_files
from loraplex.adapters_registry.uploads.errors import EmptyUpload, UploadTooLarge
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.versions import lifecycle
from loraplex.adapters_registry.versions.checking import VersionChecker
from loraplex.adapters_registry.versions.lifecycle import MAX_ATTEMPTS, VALIDATE_VERSION
from loraplex.adapters_registry.versions.models import Adapter, AdapterVersion, VersionStatus
from loraplex.adapters_registry.versions.service import Catalogue, register_base
from loraplex.engine.protocol.identity import digest_of_bytes, digest_of_file
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.blobs import blob_key
from loraplex.platform.database.outbox import OutboxMessage
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.conftest import MakeTenant
from tests.adapters_registry.samples import TINY, sample


async def rows_of(database: Database, tenant: TenantPrincipal) -> list[AdapterVersion]:
    mine = AdapterVersion.tenant_id == tenant.tenant_id
    async with database.unit_of_work() as session:
        found = await session.scalars(select(AdapterVersion).where(mine))
        return sorted(found, key=lambda version: version.number)


async def messages_for(database: Database, tenant: TenantPrincipal) -> list[dict[str, object]]:
    async with database.unit_of_work() as session:
        found = await session.scalars(
            select(OutboxMessage).where(
                OutboxMessage.task == VALIDATE_VERSION,
                OutboxMessage.arguments["tenant_id"].astext == str(tenant.tenant_id),
            )
        )
        return [message.arguments for message in found]


async def test_an_upload_becomes_a_version_with_bytes_and_a_message(
    uploads: Uploads,
    store: ObjectStore,
    system_database: Database,
    tenant: TenantPrincipal,
    base: ModuleTable,
    tmp_path: Path,
) -> None:
    config, weights = sample().write(tmp_path)
    view, is_new = await uploads.submit(tenant, "support", config, weights)
    config_digest, weights_digest = digest_of_bytes(config), digest_of_file(weights)
    assert is_new
    assert (view.adapter, view.version, view.status) == ("support", 1, VersionStatus.UPLOADED)
    assert view.model == f"{tenant.tenant_name}/support:v1"
    assert view.digest == adapter_digest(base.base_digest, config_digest, weights_digest)
    assert view.size_bytes == len(config) + weights.stat().st_size
    assert store.read(blob_key(tenant.namespace, config_digest)) == config
    assert store.read(blob_key(tenant.namespace, weights_digest)) == weights.read_bytes()
    (row,) = await rows_of(system_database, tenant)
    assert await messages_for(system_database, tenant) == [
        {"tenant_id": str(tenant.tenant_id), "version_id": str(row.id)}
    ]


async def test_an_upload_is_callable_as_soon_as_it_is_checked(
    uploads: Uploads,
    checker: VersionChecker,
    database: Database,
    system_database: Database,
    tenant: TenantPrincipal,
    base: ModuleTable,
    tmp_path: Path,
) -> None:
    config, weights = sample().write(tmp_path)
    await uploads.submit(tenant, "support", config, weights)
    catalogue = Catalogue()
    async with database.unit_of_work(tenant.tenant_id) as session:
        with pytest.raises(ModelNotFound, match="still being checked"):
            await catalogue.resolve(session, tenant, "support")
    (row,) = await rows_of(system_database, tenant)
    assert await checker.check(tenant.tenant_id, row.id)
    async with database.unit_of_work(tenant.tenant_id) as session:
        resolved = await catalogue.resolve(session, tenant, "support")
        view = await catalogue.get_version(session, tenant, "support", 1)
    assert resolved.spec == spec_from_files(config, weights, base)
    assert (view.status, view.max_rank, view.reasons) == (VersionStatus.READY, 4, ())


async def test_identical_bytes_are_the_version_that_exists(
    uploads: Uploads,
    checker: VersionChecker,
    system_database: Database,
    tenant: TenantPrincipal,
    tmp_path: Path,
) -> None:
    bad = sample()
    bad.config["r"] = 0
    config, weights = bad.write(tmp_path)
    first, _ = await uploads.submit(tenant, "support", config, weights)
    (row,) = await rows_of(system_database, tenant)
    await checker.check(tenant.tenant_id, row.id)
    again, is_new = await uploads.submit(tenant, "support", config, weights)
    assert not is_new
    assert again.version == first.version
    assert again.status is VersionStatus.REJECTED
    assert [reason.field for reason in again.reasons] == ["r"]
    assert len(await messages_for(system_database, tenant)) == 1


async def test_what_the_platform_failed_to_check_is_checked_again_on_the_same_bytes(
    uploads: Uploads,
    checker: VersionChecker,
    system_database: Database,
    tenant: TenantPrincipal,
    tmp_path: Path,
) -> None:
    files = sample().write(tmp_path)
    await uploads.submit(tenant, "support", *files)
    (row,) = await rows_of(system_database, tenant)
    for _ in range(MAX_ATTEMPTS):
        async with system_database.unit_of_work() as session:
            attempt = await lifecycle.begin(session, tenant.tenant_id, row.id)
            assert attempt is not None
            await lifecycle.put_back(session, attempt, "the store is away")
    assert (await rows_of(system_database, tenant))[0].status == VersionStatus.REJECTED
    again, is_new = await uploads.submit(tenant, "support", *files)
    assert (again.version, again.status, is_new) == (1, VersionStatus.UPLOADED, False)
    assert again.reasons == ()
    assert len(await messages_for(system_database, tenant)) == 2
    assert await checker.check(tenant.tenant_id, row.id)
    assert (await rows_of(system_database, tenant))[0].status == VersionStatus.READY


async def test_other_bytes_are_the_next_version_and_other_names_begin_at_one(
    uploads: Uploads, tenant: TenantPrincipal, tmp_path: Path
) -> None:
    numbers = []
    for name, seed in (("a", 1), ("a", 2), ("b", 2), ("a", 1)):
        view, _ = await uploads.submit(tenant, name, *sample(seed=seed).write(tmp_path))
        numbers.append((name, view.version))
    assert numbers == [("a", 1), ("a", 2), ("b", 1), ("a", 1)]


async def test_uploads_at_once_get_numbers_without_gap_or_double(
    uploads: Uploads, system_database: Database, tenant: TenantPrincipal, tmp_path: Path
) -> None:
    files = []
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        files.append(sample(seed=seed).write(folder))
    answers = await asyncio.gather(
        *(uploads.submit(tenant, "support", *pair) for pair in files for _ in range(2))
    )
    assert sum(is_new for _, is_new in answers) == 4
    assert {view.version for view, _ in answers} == {1, 2, 3, 4}
    assert [row.number for row in await rows_of(system_database, tenant)] == [1, 2, 3, 4]
    assert len(await messages_for(system_database, tenant)) == 4


async def test_two_tenants_identical_bytes_lie_apart(
    uploads: Uploads,
    store: ObjectStore,
    system_database: Database,
    make_tenant: MakeTenant,
    tmp_path: Path,
) -> None:
    files = sample().write(tmp_path)
    one, other = await make_tenant(), await make_tenant()
    await uploads.submit(one, "support", *files)
    _, is_new = await uploads.submit(other, "support", *files)
    assert is_new
    weights_digest = digest_of_file(files[1])
    assert blob_key(one.namespace, weights_digest) != blob_key(other.namespace, weights_digest)
    assert store.exists(blob_key(other.namespace, weights_digest))
    assert len(await rows_of(system_database, other)) == 1


async def test_without_the_store_nothing_is_recorded(
    uploads: Uploads,
    services: Settings,
    system_database: Database,
    tenant: TenantPrincipal,
    tmp_path: Path,
) -> None:
    nowhere = services.model_copy(update={"s3_endpoint": f"http://127.0.0.1:{free_port()}"})
    broken = replace(uploads, store=ObjectStore.from_settings(nowhere))
    with pytest.raises(StoreUnavailable):
        await broken.submit(tenant, "support", *sample().write(tmp_path))
    async with system_database.unit_of_work() as session:
        mine = Adapter.tenant_id == tenant.tenant_id
        assert (await session.scalars(select(Adapter).where(mine))).all() == []


async def test_what_cannot_be_an_upload_is_refused_by_name(
    uploads: Uploads, base: ModuleTable, tenant: TenantPrincipal, tmp_path: Path
) -> None:
    config, weights = sample().write(tmp_path)
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(InvalidAdapterName):
        await uploads.submit(tenant, "a/b", config, weights)
    with pytest.raises(InvalidAdapterName):
        await uploads.submit(tenant, base.base_name, config, weights)
    with pytest.raises(EmptyUpload, match="adapter_config"):
        await uploads.submit(tenant, "a", b"", weights)
    with pytest.raises(EmptyUpload, match="adapter_model"):
        await uploads.submit(tenant, "a", config, empty)
    with pytest.raises(UploadTooLarge, match=str(weights.stat().st_size)):
        await replace(uploads, max_upload_bytes=100).submit(tenant, "a", config, weights)
    with pytest.raises(UploadTooLarge, match="adapter_config"):
        await uploads.submit(tenant, "a", b" " * 300_000, weights)
    with pytest.raises(BaseModelUnknown):
        await replace(uploads, base_name="nothing").submit(tenant, "a", config, weights)


async def test_an_adapters_versions_are_all_of_one_base(
    uploads: Uploads, system_database: Database, tenant: TenantPrincipal, tmp_path: Path
) -> None:
    config, weights = sample().write(tmp_path)
    await uploads.submit(tenant, "support", config, weights)
    other = msgspec.structs.replace(TINY, base_name=f"other-{uuid4().hex}")
    async with system_database.unit_of_work() as session:
        await register_base(session, other)
    with pytest.raises(OtherBase):
        await replace(uploads, base_name=other.base_name).submit(tenant, "support", config, weights)
