"""A real controller listener on a port, real worker processes around an EchoEngine, and fleets."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from loraplex.engine.protocol.config import EngineConfig
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.pools.controller import INTERNAL_HOST, Server, listener_config
from loraplex.platform.pools.fleet import WorkerFleet
from loraplex.platform.pools.launcher import worker_command
from loraplex.platform.pools.listener import create_listener
from loraplex.platform.pools.views import WorkerState, WorkerView
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings

ROOT = Path(__file__).parents[3]
DEADLINE_SECONDS = 20.0


@pytest.fixture
def secret_keys(services: Settings) -> SecretKeys:
    return SecretKeys.from_settings(services)


@pytest.fixture
def base_name() -> str:
    """Each test's own base model, so that it sees only its own workers."""
    return f"echo-{uuid4().hex[:8]}"


@dataclass
class ControllerListener:
    """The internal listener, which a test may stop and start again."""

    database: Database
    secrets: SecretKeys
    port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"http://{INTERNAL_HOST}:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = Server(listener_config(create_listener(self.database, self.secrets), self.port))
        task = asyncio.create_task(server.serve())
        yield
        server.stop()
        await task


@pytest.fixture
def listener(system_database: Database, secret_keys: SecretKeys) -> ControllerListener:
    return ControllerListener(system_database, secret_keys)


@dataclass
class WorkerProcess:
    """One echo worker's process, and how to start it again."""

    environment: dict[str, str]
    step_seconds: float
    process: subprocess.Popen[bytes] | None = None

    @property
    def id(self) -> str:
        return self.environment["LORAPLEX_WORKER_ID"]

    @property
    def status(self) -> int | None:
        """The exit status, None while it runs."""
        assert self.process is not None
        return self.process.poll()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.worker.echo_worker", str(self.step_seconds)],
            env=self.environment,
            cwd=ROOT,
        )

    def kill(self) -> None:
        """kill -9, and wait for it to be gone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)


Launch = Callable[..., WorkerProcess]


@pytest.fixture
def launch(
    services: Settings, listener: ControllerListener, secret_keys: SecretKeys, base_name: str
) -> Iterator[Launch]:
    """Starts a worker process as the launcher would, with an EchoEngine in it."""
    started: list[WorkerProcess] = []

    def launch_worker(step_seconds: float = 0.01) -> WorkerProcess:
        settings = services.model_copy(update={"internal_url": listener.url})
        config = EngineConfig(model_dir="-", base_name=base_name, adapter_cache_dir="-")
        _, environment = worker_command(settings, uuid4().int % 10**9, config, secret_keys)
        worker = WorkerProcess(environment, step_seconds)
        worker.start()
        started.append(worker)
        return worker

    yield launch_worker
    for worker in started:
        worker.kill()


MakeFleet = Callable[..., Awaitable[WorkerFleet]]
"""Takes the fleet's options."""


@pytest.fixture
async def make_fleet(database: Database, secret_keys: SecretKeys) -> AsyncIterator[MakeFleet]:
    async with AsyncExitStack() as stack:

        async def make(**options: Any) -> WorkerFleet:
            fleet = WorkerFleet(database, secret_keys, f"gateway-{uuid4().hex}", **options)
            await fleet.start()
            stack.push_async_callback(fleet.stop)
            return fleet

        yield make


@pytest.fixture
async def fleet(make_fleet: MakeFleet) -> WorkerFleet:
    return await make_fleet()


async def until(condition: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> float:
    """Wait for a condition; how long it took. Fails when it takes longer than `seconds`."""
    began_at = time.monotonic()
    while not condition():
        assert time.monotonic() - began_at < seconds, "the condition did not come true"
        await asyncio.sleep(0.01)
    return time.monotonic() - began_at


def view_of(fleet: WorkerFleet, worker_id: str) -> WorkerView | None:
    return next((view for view in fleet.workers() if view.id == worker_id), None)


def is_live(fleet: WorkerFleet, worker: WorkerProcess) -> bool:
    """Whether the process that runs now is the incarnation the fleet knows and can use."""
    view = view_of(fleet, worker.id)
    assert worker.process is not None
    return (
        view is not None
        and view.state is WorkerState.LIVE
        and view.process_id == worker.process.pid
    )
