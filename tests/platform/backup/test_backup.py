"""Backups of an installation without a model: what is in them, and what refuses to be put back."""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.tenants.deleting import Deleter
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.versions.service import register_base
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.audit.actors import Actor
from loraplex.platform.backup import programs, taking
from loraplex.platform.backup.errors import (
    BackupDamaged,
    BackupIncompatible,
    BackupIncomplete,
    BackupTargetExists,
    DataDirNotEmpty,
    NotEmbedded,
    SecretKeyMissing,
)
from loraplex.platform.backup.installation import embedded
from loraplex.platform.backup.manifest import Manifest, described, read_verified
from loraplex.platform.backup.restoring import restore
from loraplex.platform.backup.taking import take
from loraplex.platform.database.migrate import expected_revision, upgrade
from loraplex.platform.database.roles import SYSTEM
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.objects import Objects
from loraplex.platform.embedded.own_services import own_services, role_passwords
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.processes import running
from loraplex.platform.lifecycle import service as lifecycle
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId
from tests.adapters_registry.samples import TINY, sample


@dataclass(frozen=True)
class Owned:
    tenant_id: TenantId
    tenant_name: str
    namespace: TenantNamespace


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a tenant, a version and its bytes; nothing runs in it."""
    data_dir = tmp_path_factory.mktemp("installation")
    (data_dir / "secret_key").write_text("k" * 40)
    (data_dir / "credentials.json").write_text('{"admin": {}}')
    services = own_services(Settings(data_dir=data_dir))
    with ExitStack() as stack:
        for service in (services.postgres, services.objects):
            assert service is not None
            stack.enter_context(running(service, data_dir / "logs"))
        services.make_roles()
        settings = services.complete(Settings(data_dir=data_dir))
        assert settings.database_migrator_url is not None
        upgrade(settings.database_migrator_url.get_secret_value())
        asyncio.run(fill(settings, tmp_path_factory.mktemp("sample")))
    return data_dir


async def fill(settings: Settings, folder: Path) -> None:
    """A tenant with one adapter of one version, uploaded as tenants upload."""
    assert settings.database_system_url is not None
    system = Database(settings.database_system_url.get_secret_value())
    administration = TenantAdministration(SecretKeys.from_settings(settings))
    async with system.unit_of_work() as session:
        tenant = await administration.create_tenant(session, "acme")
        await register_base(session, TINY)
    owner = Owned(TenantId(tenant.id), tenant.name, TenantNamespace(tenant.namespace))
    uploads = Uploads(system, ObjectStore.from_settings(settings), TINY.base_name, 10**6)
    config, weights = sample().write(folder)
    await uploads.submit(owner, "support", config, weights)
    await system.dispose()


@pytest.fixture(scope="module")
def backed_up(installation: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backups") / "whole"
    take(installation, folder, with_secrets=True)
    return folder


@pytest.fixture
def copy(backed_up: Path, tmp_path: Path) -> Path:
    """A copy of the backup, to be spoilt."""
    return Path(shutil.copytree(backed_up, tmp_path / "copy"))


def objects_of(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "objects").rglob("*") if path.is_file())


def blobs(folder: Path) -> dict[str, bytes]:
    """The adapters' bytes in a backup, by their keys in the store."""
    objects = folder / "objects"
    return {str(path.relative_to(objects)): path.read_bytes() for path in objects_of(folder)}


def changed(folder: Path, **values: object) -> None:
    """Change the manifest's own words."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | values))


def test_a_backup_is_private_and_says_what_is_in_it(backed_up: Path) -> None:
    manifest = read_verified(backed_up)
    others = {"database.dump", "secrets/secret_key", "secrets/credentials.json"}
    assert set(manifest.files) == others | {f"objects/{key}" for key in blobs(backed_up)}
    assert len(blobs(backed_up)) == 2
    assert (manifest.revision, manifest.has_secrets) == (expected_revision(), True)
    modes = {path.stat().st_mode & 0o077 for path in [backed_up, *backed_up.rglob("*")]}
    assert modes == {0}


def test_it_comes_back_whole_through_one_file_without_secrets(
    installation: Path, backed_up: Path, tmp_path: Path
) -> None:
    archive, fresh = tmp_path / "backup.tar", tmp_path / "fresh"
    assert not take(installation, archive, with_secrets=False).has_secrets
    assert b"k" * 40 not in archive.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]
    restore(archive, fresh, installation / "secret_key")
    assert (fresh / "secret_key").read_text() == "k" * 40
    server, store = embedded(Settings(data_dir=fresh))
    with ExitStack() as stack:
        for service in (server, store):
            stack.enter_context(running(service, fresh / "logs"))
        for key, data in blobs(backed_up).items():
            assert store.client.get_object(Bucket=store.bucket, Key=key)["Body"].read() == data
        passwords = role_passwords(server.folder)
        with psycopg.connect(server.url("loraplex_system", passwords["loraplex_system"])) as system:
            assert system.execute("SELECT name FROM adapters").fetchall() == [("support",)]
        with psycopg.connect(server.url("loraplex_app", passwords["loraplex_app"])) as app:
            assert app.execute("SELECT name FROM adapters").fetchall() == []
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute("DELETE FROM ledger")


def test_bytes_that_the_store_lost_fail_the_backup_and_leave_nothing(
    installation: Path, backed_up: Path, tmp_path: Path
) -> None:
    data_dir = Path(shutil.copytree(installation, tmp_path / "data", symlinks=True))
    server, store = embedded(Settings(data_dir=data_dir))
    with running(store, data_dir / "logs"):
        store.client.delete_object(Bucket=store.bucket, Key=next(iter(blobs(backed_up))))
    with pytest.raises(BackupIncomplete, match="which the database refers to"):
        take(data_dir, tmp_path / "backup", with_secrets=True)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert server.folder.is_dir()


Spoil = Callable[[Path], None]
SPOILT: dict[str, tuple[Spoil, type[Exception]]] = {
    "a bit flipped": (lambda one: flip(one / "database.dump"), BackupDamaged),
    "a file gone": (lambda one: next(iter(objects_of(one))).unlink(), BackupDamaged),
    "a file more": (lambda one: (one / "more").touch(), BackupDamaged),
    "no manifest": (lambda one: (one / "manifest.json").unlink(), BackupDamaged),
    "another format": (lambda one: changed(one, format=2), BackupDamaged),
    "another postgres": (lambda one: changed(one, postgres_major="17"), BackupIncompatible),
    "a newer schema": (lambda one: changed(one, revision="9999"), BackupIncompatible),
    "no secrets": (lambda one: changed(one, secret_proof="00" * 32), SecretKeyMissing),
}


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("what", SPOILT)
def test_what_is_not_whole_or_not_ours_is_not_put_back(
    what: str, copy: Path, tmp_path: Path
) -> None:
    spoil, refusal = SPOILT[what]
    spoil(copy)
    with pytest.raises(refusal):
        restore(copy, tmp_path / "fresh")
    assert list((tmp_path / "fresh").iterdir()) == []


def test_another_secret_key_is_refused(backed_up: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("x" * 40)
    with pytest.raises(SecretKeyMissing):
        restore(backed_up, tmp_path / "fresh", tmp_path / "key")


def test_nothing_is_overwritten(backed_up: Path, installation: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupTargetExists):
        take(installation, backed_up, with_secrets=True)
    (tmp_path / "credentials.json").touch()
    with pytest.raises(DataDirNotEmpty, match=r"credentials\.json"):
        restore(backed_up, tmp_path)


def test_what_fails_half_way_leaves_the_directory_as_empty_as_before(
    copy: Path, tmp_path: Path
) -> None:
    dump = copy / "database.dump"
    dump.write_bytes(dump.read_bytes()[:-1000])
    manifest = Manifest.model_validate_json((copy / "manifest.json").read_text())
    files = dict(manifest.files) | {"database.dump": described(dump)}
    manifest.model_copy(update={"files": files}).write(copy)
    models = tmp_path / "fresh" / "models"
    models.mkdir(parents=True)
    with pytest.raises(BackupIncomplete, match="pg_restore failed"):
        restore(copy, tmp_path / "fresh")
    assert list((tmp_path / "fresh").iterdir()) == [models]


@dataclass(frozen=True)
class Going:
    """A tenant's deletion, on the services that a backup has started or a test."""

    system_url: str
    store: ObjectStore

    @classmethod
    def on(cls, server: Postgres, objects: Objects) -> "Going":
        password = role_passwords(server.folder)[SYSTEM]
        return cls(server.url(SYSTEM, password), ObjectStore(objects.client, objects.bucket))

    async def _delete(self) -> bool:
        database = Database(self.system_url, pool_size=1)
        try:
            async with database.unit_of_work() as session:
                tenant = await lifecycle.find_tenant(session, "acme")
                await lifecycle.begin_deletion(
                    session, Actor.system("test"), tenant, confirm="acme"
                )
            deleter = Deleter(database, self.store, SecretKeys(["k" * 40]))
            return await deleter.delete(tenant.id)
        finally:
            await database.dispose()

    def delete(self) -> bool:
        """Whether all of it is gone."""
        return asyncio.run(self._delete())


def test_a_tenant_that_is_deleted_while_it_is_copied_is_in_it_whole(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = Path(shutil.copytree(installation, tmp_path / "data", symlinks=True))
    fill, run, deleted = taking._fill, programs.run, []

    def fill_and_tell(
        folder: Path, settings: Settings, server: Postgres, store: Objects, *, with_secrets: bool
    ) -> Manifest:
        def dump_and_delete(program: str, server: Postgres, arguments: Sequence[str]) -> None:
            run(program, server, arguments)
            deleted.append(Going.on(server, store).delete())

        monkeypatch.setattr(programs, "run", dump_and_delete)
        return fill(folder, settings, server, store, with_secrets=with_secrets)

    monkeypatch.setattr(taking, "_fill", fill_and_tell)
    take(data_dir, tmp_path / "backup", with_secrets=True)
    assert deleted == [False], "it waits until the backup has copied"
    assert len(blobs(tmp_path / "backup")) == 2
    read_verified(tmp_path / "backup")


def test_a_tenant_whose_deletion_died_half_way_fails_no_backup(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = Path(shutil.copytree(installation, tmp_path / "data", symlinks=True))
    server, store = embedded(Settings(data_dir=data_dir))
    with ExitStack() as stack:
        for service in (server, store):
            stack.enter_context(running(service, data_dir / "logs"))
        going = Going.on(server, store)
        delete = ObjectStore.delete
        deleted: list[str] = []

        def delete_one(self: ObjectStore, key: str) -> None:
            if deleted:
                raise ConnectionError
            deleted.append(key)
            delete(self, key)

        with monkeypatch.context() as patched:
            patched.setattr(ObjectStore, "delete", delete_one)
            with pytest.raises(ConnectionError):
                going.delete()
        assert len(going.store.keys("tenants/")) == 1
    take(data_dir, tmp_path / "backup", with_secrets=True)
    assert blobs(tmp_path / "backup") == {}


@pytest.fixture
def _external_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LORAPLEX_S3_ENDPOINT", "http://127.0.0.1:1")
    yield


@pytest.mark.usefixtures("_external_store")
def test_services_of_ones_own_are_backed_up_by_their_own_means(
    installation: Path, tmp_path: Path
) -> None:
    with pytest.raises(NotEmbedded):
        take(installation, tmp_path / "backup", with_secrets=True)
