"""The controller process: it outlives a Postgres that restarts, and ends when told."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from loraplex.engine.protocol.workers import WorkerRegistration
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.processes import running
from loraplex.platform.pools.controller import MissingControllerSetting, run_controller
from loraplex.platform.pools.worker_token import worker_token
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from tests.conftest import role_urls
from tests.platform.pools.conftest import DEADLINE_SECONDS
from tests.platform.pools.registrations import a_registration

SECRET = "s" * 40


@contextmanager
def controller_process(
    services: Settings, system_url: str, data_dir: Path
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    assert services.broker_url is not None
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "loraplex.platform.cli", "controller"],
        env={
            "PATH": os.environ["PATH"],
            "LORAPLEX_DATA_DIR": str(data_dir),
            "LORAPLEX_SECRET_KEY": SECRET,
            "LORAPLEX_DATABASE_SYSTEM_URL": system_url,
            "LORAPLEX_BROKER_URL": services.broker_url.get_secret_value(),
            "LORAPLEX_INTERNAL_PORT": str(port),
        },
    )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def register_until(
    http: httpx.AsyncClient, registration: WorkerRegistration, status: int | None
) -> None:
    """Register again and again until the answer has this status; None for no answer at all."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            try:
                body = msgspec.json.encode(registration)
                answered = (await http.post("/internal/workers", content=body)).status_code
            except httpx.TransportError:
                answered = None
            if answered == status:
                return
            await asyncio.sleep(0.05)


async def test_it_survives_a_postgres_that_restarts_and_ends_on_sigterm(
    services: Settings, tmp_path: Path
) -> None:
    postgres = Postgres(tmp_path / "postgres", free_port(), durable=False)
    logs = tmp_path / "logs"
    registration = a_registration()
    with running(postgres, logs):
        system_url = role_urls(postgres)["database_system_url"]
    with controller_process(services, system_url, tmp_path) as (process, url):
        token = worker_token(SecretKeys([SECRET]))
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=url, headers=headers) as http:
            await register_until(http, registration, 503)  # started before its database
            with running(postgres, logs):
                await register_until(http, registration, 200)
            await register_until(http, registration, 503)
            with running(postgres, logs):
                await register_until(http, registration, 200)
                process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(process.wait, DEADLINE_SECONDS) == 0
            await register_until(http, registration, None)


async def test_it_says_what_it_was_not_told(services: Settings) -> None:
    with pytest.raises(MissingControllerSetting, match="LORAPLEX_INTERNAL_PORT"):
        await run_controller(services.model_copy(update={"internal_port": None}))
