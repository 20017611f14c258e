"""Sources of the tests' own, and what fetches from them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from loraplex.adapters_registry.imports.fetching import SourceFetcher
from loraplex.adapters_registry.imports.running import ImportRunner
from loraplex.adapters_registry.imports.service import Imports
from loraplex.adapters_registry.imports.sources import CONFIG_FILE, WEIGHTS_FILE
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.platform.database.sessions import Database
from loraplex.platform.outbound.client import OutboundClient
from loraplex.platform.outbound.rules import OutboundRules
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from tests.adapters_registry.samples import sample
from tests.web_server import Asked, Respond

MakeFetcher = Callable[..., SourceFetcher]
MakeRunner = Callable[..., ImportRunner]


@pytest.fixture
def open_settings(services: Settings) -> Settings:
    """An operator who lets tenants reach this machine."""
    changes = {
        "outbound_http": True,
        "outbound_ports": "1024-65535",
        "outbound_private_hosts": "127.0.0.0/8",
    }
    return services.model_copy(update=changes)


@pytest.fixture
def rules(open_settings: Settings) -> OutboundRules:
    return OutboundRules.from_settings(open_settings)


@pytest.fixture
async def client(open_settings: Settings) -> AsyncIterator[OutboundClient]:
    async with OutboundClient.from_settings(open_settings) as client:
        yield client


@pytest.fixture
def make_fetcher(client: OutboundClient) -> MakeFetcher:
    def make(hub_url: str = "http://127.0.0.1:1024", **limits: float) -> SourceFetcher:
        values = {"seconds": 60.0, "max_weights_bytes": 1_000_000, "max_config_bytes": 10_000}
        values |= limits
        return SourceFetcher(
            client,
            hub_url,
            values["seconds"],
            int(values["max_weights_bytes"]),
            int(values["max_config_bytes"]),
        )

    return make


@pytest.fixture
def secrets(services: Settings) -> SecretKeys:
    return SecretKeys.from_settings(services)


@pytest.fixture
def imports(uploads: Uploads, secrets: SecretKeys, rules: OutboundRules) -> Imports:
    return Imports(uploads, secrets, rules)


@pytest.fixture
def make_runner(
    system_database: Database,
    store: ObjectStore,
    secrets: SecretKeys,
    make_fetcher: MakeFetcher,
    tmp_path: Path,
) -> MakeRunner:
    def make(slots: int = 1000, **fetching: float) -> ImportRunner:
        return ImportRunner(
            system_database, store, secrets, make_fetcher(**fetching), tmp_path / "scratch", slots
        )

    return make


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """A good adapter of TINY, which no other test has."""
    folder = tmp_path / "adapter"
    folder.mkdir()
    config, weights = sample(seed=uuid4().int % 2**32).write(folder)
    return {CONFIG_FILE: config, WEIGHTS_FILE: weights.read_bytes()}


def folder_of(files: dict[str, bytes], prefix: str = "/") -> Respond:
    """A web server's answers where these files lie under a prefix."""

    async def respond(asked: Asked, writer: asyncio.StreamWriter) -> None:
        path = asked.target.partition("?")[0]
        body = files.get(path.removeprefix(prefix)) if path.startswith(prefix) else None
        status = "404 Not Found" if body is None else "200 OK"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body or b'')}\r\n\r\n".encode())
        writer.write(body or b"")

    return respond
