"""The command line against a real gateway; validation runs beside it, as a Celery child would."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from sqlalchemy import select
from typer.testing import CliRunner, Result

from loraplex.adapters_registry.client import RegistryClient, adapter_files
from loraplex.adapters_registry.commands import PENDING, REJECTED, adapter
from loraplex.adapters_registry.import_commands import source_of
from loraplex.adapters_registry.imports.fetching import SourceFetcher
from loraplex.adapters_registry.imports.models import AdapterImport
from loraplex.adapters_registry.imports.running import ImportRunner
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
from loraplex.platform.management_commands import UNREACHABLE
from loraplex.platform.outbound.client import OutboundClient
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
    with running_gateway(reaching_here(services, model=str(smollm2_dir))) as running:
        yield running


def reaching_here(services: Settings, **changes: object) -> Settings:
    """Of an operator who lets tenants import from this machine."""
    outbound = {"outbound_http": True, "outbound_private_hosts": "127.0.0.0/8"}
    ports = {"outbound_ports": "1024-65535"}
    return services.model_copy(update=outbound | ports | changes)


@pytest.fixture
def validating(
    services: Settings, tenant_key: tuple[TenantId, str, str], tmp_path: Path
) -> Iterator[None]:
    """Completes, fetches and checks whatever this tenant brings, until the test is over."""
    over = Event()

    async def check_all() -> None:
        database = system(services)
        async with OutboundClient.from_settings(reaching_here(services)) as client:
            fetcher = SourceFetcher(client, services.hub_url, 60.0, services.max_upload_bytes)
            await check_while_running(database, fetcher)
        await database.dispose()

    async def check_while_running(database: Database, fetcher: SourceFetcher) -> None:
        store = ObjectStore.from_settings(services)
        checker = VersionChecker(database, store, ValidationLimits(), tmp_path / "checks")
        completer = UploadCompleter(
            database, store, services.max_upload_bytes, tmp_path / "archives"
        )
        secrets = SecretKeys.from_settings(services)
        runner = ImportRunner(database, store, secrets, fetcher, tmp_path / "imports", slots=1000)
        mine = tenant_key[0]
        steps = (
            (select(Upload.id).where(Upload.tenant_id == mine), completer.complete),
            (select(AdapterImport.id).where(AdapterImport.tenant_id == mine), runner.run),
            (select(AdapterVersion.id).where(AdapterVersion.tenant_id == mine), checker.check),
        )
        while not over.is_set():
            for rows, step in steps:
                async with database.unit_of_work() as session:
                    ids = (await session.scalars(rows)).all()
                for one in ids:
                    await step(mine, one)
            await asyncio.to_thread(over.wait, 0.05)

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


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a folder's files."""
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


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


@pytest.mark.usefixtures("validating")
def test_an_import_is_waited_for_until_it_is_ready(
    invoke: Invoke, tenant_key: tuple[TenantId, str, str]
) -> None:
    with serving(FIXTURES / "shout") as address:
        imported = invoke("import", address, "--name", "fetched")
    assert imported.exit_code == 0, imported.output
    assert f"{tenant_key[1]}/fetched:v1 is ready (rank 4, " in imported.output


@pytest.mark.usefixtures("validating")
def test_an_import_that_fails_says_why(invoke: Invoke, tmp_path: Path) -> None:
    with serving(tmp_path) as address:
        imported = invoke("import", address, "--name", "missing")
    assert imported.exit_code == REJECTED
    assert "The import failed." in imported.output and "adapter_config.json" in imported.output


def test_an_import_nobody_fetches_is_pending(invoke: Invoke) -> None:
    waiting = invoke("import", "acme/lora", "--name", "slow", "--timeout", "0")
    assert waiting.exit_code == PENDING
    assert "still queued" in waiting.output


@pytest.mark.parametrize(
    ("source", "options", "sent"),
    [
        ("s3://b/folder", {"region": "auto"}, {"kind": "s3", "url": "s3://b/folder"}),
        ("https://files.example/a/", {}, {"kind": "https", "url": "https://files.example/a/"}),
        ("acme/lora", {"token": "hf"}, {"kind": "hub", "repository": "acme/lora"}),
    ],
)
def test_a_source_is_known_by_how_it_is_written(
    source: str, options: dict[str, str | None], sent: dict[str, str]
) -> None:
    assert source_of(source, {"revision": None, **options}) == sent | options


def test_an_option_of_another_kind_of_source_is_refused(invoke: Invoke) -> None:
    refused = invoke("import", "acme/lora", "--name", "x", "--region", "eu-central-1")
    assert refused.exit_code == 2
    assert "takes no --region" in refused.output
