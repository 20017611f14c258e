"""Measures a running `make serve`: first token and throughput, over adapters of both demo tenants.

    make bench ARGS="--concurrency 1 8 32 --tokens 64"

Prints one line for each number of streams at once; every stream asks another adapter.
"""

import argparse
import asyncio
import itertools
import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

PROMPT = "Describe a harbour at dawn."


@dataclass(frozen=True)
class Sample:
    """One stream: when its first token came, and how many tokens it had."""

    first_token_seconds: float
    tokens: int


async def stream(client: httpx.AsyncClient, key: str, model: str, max_tokens: int) -> Sample:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    started = time.perf_counter()
    first_token_seconds, tokens = 0.0, 0
    headers = {"Authorization": f"Bearer {key}"}
    async with client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if "error" in chunk:
                raise RuntimeError(chunk["error"])
            if chunk["choices"] and not first_token_seconds:
                first_token_seconds = time.perf_counter() - started
            if chunk.get("usage"):
                tokens = chunk["usage"]["completion_tokens"]
    return Sample(first_token_seconds, tokens)


async def measure(credentials: dict[str, Any], concurrency: int, max_tokens: int) -> str:
    callers = [
        (tenant["api_key"], adapter)
        for tenant in credentials["tenants"].values()
        for adapter in tenant["adapters"]
    ]
    async with httpx.AsyncClient(base_url=credentials["base_url"], timeout=600) as client:
        for key, adapter in callers:  # so that no measured stream pays for loading
            await stream(client, key, adapter, 1)
        started = time.perf_counter()
        chosen = itertools.islice(itertools.cycle(callers), concurrency)
        samples = await asyncio.gather(
            *(stream(client, key, adapter, max_tokens) for key, adapter in chosen)
        )
        seconds = time.perf_counter() - started
    median_ms = 1000 * statistics.median(sample.first_token_seconds for sample in samples)
    tokens = sum(sample.tokens for sample in samples)
    rate = f"{tokens / seconds:8.1f} tokens/s"
    return f"{concurrency:4} streams  {rate}  first token {median_ms:7.0f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, default=Path(".loraplex"))
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--tokens", type=int, default=48, help="tokens of each stream")
    options = parser.parse_args()
    credentials = json.loads((options.data_dir / "credentials.json").read_text())
    for concurrency in options.concurrency:
        print(asyncio.run(measure(credentials, concurrency, options.tokens)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
