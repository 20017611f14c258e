"""Clients whose resolver the test plays."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loraplex.platform.outbound.client import OutboundClient
from loraplex.platform.settings import Settings
from tests.web_server import Names, WebServer

ClientOf = Callable[..., OutboundClient]


@pytest.fixture
def client_of(tmp_path: Path) -> ClientOf:
    """Makes clients that may call http, the servers' ports, and the private hosts given."""

    def make(
        *servers: WebServer,
        names: Names | None = None,
        private: str | None = None,
        ca_file: Path | None = None,
    ) -> OutboundClient:
        settings = Settings.model_validate(
            {
                "data_dir": tmp_path,
                "outbound_http": True,
                "outbound_ports": ",".join(["443", *(str(server.port) for server in servers)]),
                "outbound_private_hosts": private,
                "outbound_ca_file": ca_file,
            }
        )
        if names is None:
            return OutboundClient.from_settings(settings)
        return OutboundClient.from_settings(settings, resolve=names)

    return make
