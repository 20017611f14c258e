"""Runs the application under uvicorn, and ends it well: drain, then stop within the grace time."""

import asyncio
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI

from loraplex.api.draining import Draining
from loraplex.api.gateway import create_app
from loraplex.platform.metrics_folder import leave
from loraplex.platform.settings import Settings

DRAIN_SECONDS = 6.0
"""How long running calls may go on after SIGTERM; then each ends with an error event."""
STOP_SECONDS = 9
"""When uvicorn cancels what has still not ended. Settlements get some seconds after that, and
all of it together stays under the 15 s a supervisor waits."""
BACKLOG = 2048


class GatewayServer(uvicorn.Server):
    """uvicorn, which at the end gives running calls a time of their own."""

    def __init__(
        self, config: uvicorn.Config, draining: Draining, notice_seconds: float = 0.0
    ) -> None:
        """`notice_seconds` it still accepts, not ready, and refuses calls, so that load balancers
        send new ones elsewhere before its socket closes."""
        super().__init__(config)
        self._draining = draining
        self._notice_seconds = notice_seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal again at the end, and so hide that all went well.
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._draining.begin()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._notice_seconds + DRAIN_SECONDS, self._draining.abort_running)
        try:
            await asyncio.sleep(self._notice_seconds)
            await super().shutdown(sockets)
        finally:
            timer.cancel()


def serve(settings: Settings, fd: int | None) -> None:
    """Run until SIGTERM or SIGINT. `fd` is a listening socket shared with other gateways."""
    app = create_app(settings)
    listener = _bind(settings) if fd is None else socket.socket(fileno=fd)
    notice_seconds = settings.shutdown_notice_seconds
    server = GatewayServer(server_config(app, settings), app.state.draining, notice_seconds)
    try:
        server.run(sockets=[listener])
    finally:
        leave()


def server_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        backlog=BACKLOG,
        access_log=False,
        log_config=None,
        server_header=False,
        # A header tells the client's address only where an operator has said whose headers count.
        proxy_headers=settings.trusted_proxies is not None,
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


def _bind(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
