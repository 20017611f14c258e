"""The controller process: internal listener, sweep of lapsed leases, outbox relay, webhooks.

Each of them outlives a Postgres that restarts: what fails is tried again.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Iterator

import uvicorn
from fastapi import FastAPI

from loraplex.platform.backlog import watch_backlog
from loraplex.platform.database.relay import run_relay
from loraplex.platform.database.sessions import Database
from loraplex.platform.jobs import make_celery
from loraplex.platform.pools.listener import create_listener
from loraplex.platform.pools.service import WorkerRegistry
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.webhooks.dispatcher import run_dispatcher

log = logging.getLogger(__name__)

INTERNAL_HOST = "127.0.0.1"
SWEEP_SECONDS = 10.0
RETRY_SECONDS = 1.0
SHUTDOWN_SECONDS = 3


class MissingControllerSetting(Exception):
    """The controller was started without an address or a database."""


async def run_controller(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT. Raises MissingControllerSetting when settings are incomplete."""
    if settings.database_system_url is None or settings.internal_port is None:
        raise MissingControllerSetting(
            "the controller needs LORAPLEX_DATABASE_SYSTEM_URL and LORAPLEX_INTERNAL_PORT"
        )
    database = Database(settings.database_system_url.get_secret_value())
    listener = create_listener(database, SecretKeys.from_settings(settings))
    celery = make_celery(settings)
    background = [
        asyncio.create_task(keep_running("lease sweep", lambda: sweep_leases(database))),
        asyncio.create_task(keep_running("outbox relay", lambda: run_relay(database, celery))),
        asyncio.create_task(keep_running("backlog", lambda: watch_backlog(database))),
        asyncio.create_task(keep_running("webhooks", lambda: run_dispatcher(database, settings))),
    ]
    try:
        await serve(listener, settings.internal_port)
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await database.dispose()


async def keep_running(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Start `run` again whenever it fails, for as long as the controller lives."""
    while True:
        try:
            await run()
        except Exception:
            log.exception("the %s failed; it starts again", name)
        await asyncio.sleep(RETRY_SECONDS)


async def sweep_leases(database: Database) -> None:
    while True:
        async with database.unit_of_work() as session:
            for worker_id in await WorkerRegistry(session).sweep():
                log.warning("worker %s is forgotten: its lease lapsed", worker_id)
        await asyncio.sleep(SWEEP_SECONDS)


def listener_config(app: FastAPI, port: int) -> uvicorn.Config:
    """How the listener is served: on the loopback interface, with the process's own logging."""
    return uvicorn.Config(
        app,
        host=INTERNAL_HOST,
        port=port,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


async def serve(app: FastAPI, port: int) -> None:
    """Serve until SIGTERM or SIGINT."""
    server = Server(listener_config(app, port))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    try:
        await server.serve()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


class Server(uvicorn.Server):
    """uvicorn raises a signal again once it has stopped, which would skip our own clean-up."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        self.should_exit = True
