"""A gateway under its real server, in a thread of this process, with a worker beside it."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

import httpx

from loraplex.api.gateway import create_app
from loraplex.api.server import GatewayServer, server_config
from loraplex.platform.settings import Settings
from tests.api.described import check_response

START_SECONDS = 30
TIMEOUT_SECONDS = 30


def gateway_environment(settings: Settings) -> dict[str, str]:
    """The environment of a gateway process with these settings."""
    values = {
        name: value.get_secret_value() if hasattr(value, "get_secret_value") else str(value)
        for name, value in settings
        if value is not None
    }
    return os.environ | {f"LORAPLEX_{name.upper()}": value for name, value in values.items()}


@dataclass
class RunningGateway:
    """Where it listens, and the server to stop it by."""

    port: int
    server: GatewayServer
    thread: Thread

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, key: str | None = None, address: str = "127.0.0.1") -> httpx.Client:
        """A client at `address`, which may be any of the loopback network's.

        It fails where an answer is not as the API is described.
        """
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        transport = httpx.HTTPTransport(verify=False, local_address=address)
        return httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=TIMEOUT_SECONDS,
            transport=transport,
            event_hooks={"response": [check_response]},
        )

    def stop(self, seconds: float = 20) -> None:
        """What SIGTERM does; returns when the server has ended."""
        self.server.handle_exit(15, None)
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "the gateway does not end"


@contextmanager
def running_gateway(settings: Settings) -> Iterator[RunningGateway]:
    """A gateway that accepts connections; stopped at the end unless it was before."""
    app = create_app(settings)
    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    server = GatewayServer(
        server_config(app, settings), app.state.draining, settings.shutdown_notice_seconds
    )
    thread = Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    gateway = RunningGateway(port, server, thread)
    try:
        # The socket listens already: the first answer comes when the application has started.
        httpx.get(f"{gateway.url}/healthz", timeout=START_SECONDS).raise_for_status()
        yield gateway
    finally:
        if thread.is_alive():
            gateway.stop()
