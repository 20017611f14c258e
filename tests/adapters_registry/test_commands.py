"""The command line against a real gateway; validation runs beside it, as a Celery child would."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from sqlalchemy import select
from typer.testing import CliRunner, Result

from loraplex.adapters_registry.client import RegistryClient, adapter_files
from loraplex.adapters_registry.commands import PENDING, REJECTED, UNREACHABLE, adapter
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.pushing import LocalFile, push_files
from loraplex.adapters_registry.uploads.completion import UploadCompleter
from loraplex.adapters_registry.uploads.models import Upload
from loraplex.adapters_registry.validation import ValidationLimits
from loraplex.adapters_registry.versions.checking import VersionChecker
from loraplex.adapters_registry.versions.models import AdapterVersion
from loraplex.adapters_registry.versions.service import register_base
from loraplex.engine.protocol.describe import load_or_describe
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId
from tests.adapters_registry.samples import FIXTURES
from tests.api.running import RunningGateway, running_gateway


@pytest.fixture(scope="module")
def tenant_key(services: Settings) -> tuple[TenantId, str, str]:
    """A tenant's id, name and key."""

    async def make() -> tuple[TenantId, str, str]:
        administration = TenantAdministration(SecretKeys.from_settings(services))
        database = system(services)
        async with database.unit_of_work() as session:
            tenant = await administration.create_tenant(session, f"t-{uuid4().hex}")
            _, key = await administration.create_key(session, tenant, "test")
        await database.dispose()
        return TenantId(tenant.id), tenant.name, key

    return asyncio.run(make())


@pytest.fixture(scope="module")
def gateway(services: Settings, smollm2_dir: Path) -> Iterator[RunningGateway]:
    async def register() -> None:
        database = system(services)
        async with database.unit_of_work() as session:
            await register_base(session, load_or_describe(smollm2_dir, None, smollm2_dir))
        await database.dispose()

    asyncio.run(register())
    with running_gateway(services.model_copy(update={"model": str(smollm2_dir)})) as running:
        yield running


@pytest.fixture
def validating(
    services: Settings, tenant_key: tuple[TenantId, str, str], tmp_path: Path
) -> Iterator[None]:
    """Completes and checks whatever this tenant uploads, until the test is over."""
    over = Event()

    async def check_all() -> None:
        database = system(services)
        store = ObjectStore.from_settings(services)
        checker = VersionChecker(database, store, ValidationLimits(), tmp_path / "checks")
        completer = UploadCompleter(
            database, store, services.max_upload_bytes, tmp_path / "archives"
        )
        mine = AdapterVersion.tenant_id == tenant_key[0]
        uploads = select(Upload.id).where(Upload.tenant_id == tenant_key[0])
        while not over.is_set():
            async with database.unit_of_work() as session:
                upload_ids = (await session.scalars(uploads)).all()
            for upload_id in upload_ids:
                await completer.complete(tenant_key[0], upload_id)
            async with database.unit_of_work() as session:
                ids = (await session.scalars(select(AdapterVersion.id).where(mine))).all()
            for version_id in ids:
                await checker.check(tenant_key[0], version_id)
            await asyncio.to_thread(over.wait, 0.05)
        await database.dispose()

    thread = Thread(target=lambda: asyncio.run(check_all()))
    thread.start()
    yield
    over.set()
    thread.join()


def system(services: Settings) -> Database:
    assert services.database_system_url is not None
    return Database(services.database_system_url.get_secret_value(), pool_size=1)


@pytest.fixture
def invoke(gateway: RunningGateway, tenant_key: tuple[TenantId, str, str]) -> "Invoke":
    return Invoke(gateway.url, tenant_key[2])


class Invoke:
    """`loraplex adapter …` with the tenant's key."""

    def __init__(self, url: str, key: str) -> None:
        self.environment = {
            "LORAPLEX_API_URL": url,
            "LORAPLEX_API_KEY": key,
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }

    def __call__(self, *arguments: str, **environment: str) -> Result:
        return CliRunner().invoke(adapter, arguments, env=self.environment | environment)


def copy_fixture(folder: Path) -> Path:
    for file in (FIXTURES / "shout").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.mark.usefixtures("validating")
def test_a_pushed_folder_is_ready_listed_and_shown(
    invoke: Invoke, tenant_key: tuple[TenantId, str, str]
) -> None:
    name = f"{tenant_key[1]}/loud"
    for _ in range(2):  # identical bytes are the same version
        pushed = invoke("push", str(FIXTURES / "shout"), "--name", "loud")
        assert pushed.exit_code == 0, pushed.output
        assert f"{name}:v1 is ready (rank 4, " in pushed.output
    listed = invoke("list").output
    assert [line.split()[:3] for line in listed.splitlines() if "loud" in line] == [
        ["loud", "v1", "ready"]
    ]
    assert f"{name}:v1 is ready" in invoke("show", "loud").output


@pytest.mark.usefixtures("validating")
def test_a_rejected_folder_is_told_in_words_and_by_exit_code(
    invoke: Invoke, tmp_path: Path
) -> None:
    folder = copy_fixture(tmp_path)
    config = folder / "adapter_config.json"
    config.write_text(config.read_text().replace("{", '{"quantum_rank": 7,', 1))
    pushed = invoke("push", str(folder), "--name", "quantum")
    assert pushed.exit_code == REJECTED
    assert "was rejected" in pushed.output
    assert "quantum_rank" in pushed.output
    assert "quantum_rank" in invoke("show", "quantum").output


def test_an_upload_nobody_completes_is_pending(invoke: Invoke, tmp_path: Path) -> None:
    folder = copy_fixture(tmp_path)
    config = folder / "adapter_config.json"
    config.write_text(config.read_text() + " ")
    pushed = invoke("push", str(folder), "--name", "slow", "--timeout", "0")
    assert pushed.exit_code == PENDING
    assert "still completing" in pushed.output


def test_folders_that_are_no_adapter_are_named(invoke: Invoke, tmp_path: Path) -> None:
    assert "is not a folder" in invoke("push", str(tmp_path / "x"), "--name", "n").output
    empty = invoke("push", str(tmp_path), "--name", "n")
    assert "no adapter_config.json and no adapter_model.safetensors" in empty.output
    (tmp_path / "adapter_config.json").touch()
    (tmp_path / "adapter_model.bin").touch()
    pickled = invoke("push", str(tmp_path), "--name", "n")
    assert "pickle" in pickled.output
    assert pickled.exit_code == empty.exit_code == REJECTED


def test_refusals_are_the_platforms_own_words(invoke: Invoke) -> None:
    bad_name = invoke("push", str(FIXTURES / "shout"), "--name", "a:b")
    assert bad_name.exit_code == REJECTED
    assert "'a:b' is no adapter name" in bad_name.output
    unknown = invoke("show", "nothing")
    assert "no adapter named 'nothing'" in unknown.output
    bad_key = invoke("list", LORAPLEX_API_KEY="lpx_nonsense")
    assert (bad_key.exit_code, "HTTP 401" in bad_key.output) == (REJECTED, True)


def test_a_platform_that_is_away_is_told_apart(invoke: Invoke) -> None:
    away = invoke("list", LORAPLEX_API_URL=f"http://127.0.0.1:{free_port()}")
    assert away.exit_code == UNREACHABLE
    assert "cannot be reached" in away.output


PARTS = 5


@pytest.fixture
def large(tmp_path: Path) -> list[LocalFile]:
    """A folder whose weights have several parts; nobody looks into them here."""
    (tmp_path / "adapter_config.json").write_text("{}")
    weights = tmp_path / "adapter_model.safetensors"
    weights.write_bytes(os.urandom(1024) * (1024 * 8 * PARTS - 5))
    return [LocalFile.of(path) for path in adapter_files(tmp_path)]


class Watched(RegistryClient):
    """Notes which parts were sent, and hangs up before the fourth."""

    def __init__(self, url: str, key: str, limit: int = 1000) -> None:
        super().__init__(url, key)
        self.sent: list[str] = []
        self.allowed = iter(range(limit))

    def put_part(self, url: str, body: Iterator[bytes], size_bytes: int) -> None:
        if next(self.allowed, None) is None:
            raise KeyboardInterrupt
        super().put_part(url, body, size_bytes)
        self.sent.append(urlsplit(url).path)


@pytest.mark.usefixtures("validating")
def test_an_interrupted_push_goes_on_where_it_was(
    gateway: RunningGateway, tenant_key: tuple[TenantId, str, str], large: list[LocalFile]
) -> None:
    told: list[int] = []
    with (
        Watched(gateway.url, tenant_key[2], limit=3) as first,
        pytest.raises(KeyboardInterrupt),
    ):
        push_files(first, "resumed", large, told.append, 60)
    begun = sum(told)
    assert len(first.sent) == 3
    told.clear()
    with Watched(gateway.url, tenant_key[2]) as second:
        assert push_files(second, "resumed", large, told.append, 60) == 1
        assert push_files(second, "resumed", large, told.append, 60) == 1
        assert len(second.uploads("resumed", "completed")) == 2
    assert begun > 0
    assert not set(first.sent) & set(second.sent)
    assert sum(told) == 2 * sum(file.size_bytes for file in large)


@pytest.mark.usefixtures("validating")
def test_a_push_goes_straight_to_a_store_that_clients_reach(
    services: Settings,
    smollm2_dir: Path,
    gateway: RunningGateway,
    tenant_key: tuple[TenantId, str, str],
    large: list[LocalFile],
) -> None:
    changed = {"model": str(smollm2_dir), "s3_public_endpoint": services.s3_endpoint}
    with (
        running_gateway(services.model_copy(update=changed)) as direct,
        Watched(direct.url, tenant_key[2]) as client,
    ):
        assert push_files(client, "straight", large, lambda _: None, 60) == 1
    assert len(client.sent) == PARTS + 1
    assert all(path.startswith(f"/{services.s3_bucket}/tenants/") for path in client.sent)


@pytest.mark.usefixtures("validating")
def test_a_failed_upload_is_told_in_the_platforms_words(invoke: Invoke, tmp_path: Path) -> None:
    archive = tmp_path / "adapter.zip"
    archive.write_bytes(b"PK\x03\x04 and no more")
    pushed = invoke("push", str(archive), "--name", "broken")
    assert pushed.exit_code == REJECTED
    assert "The upload is failed. The archive is cut short" in pushed.output
