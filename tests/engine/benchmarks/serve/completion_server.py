"""A small real HTTP server that answers /v1/completions, each model in its own way."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

GAP_SECONDS = 0.005


@dataclass
class CompletionServer:
    """No answer begins before so many requests have arrived as `waits_for`."""

    port: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    arrived_at: list[float] = field(default_factory=list)
    waits_for: int = 1
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def answer(self, request: Request) -> Response:
        self.arrived_at.append(time.perf_counter())
        if len(self.arrived_at) >= self.waits_for:
            self.gate.set()
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers.get("authorization"))
        if body["model"] == "busy":
            return JSONResponse({"error": {"code": "limited"}}, status_code=429)
        return StreamingResponse(self.stream(body), media_type="text/event-stream")

    async def stream(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        model, tokens = body["model"], body["max_tokens"]
        await self.gate.wait()
        if model == "silent":
            yield b"data: [DONE]\n\n"
            return
        for _ in range(tokens if model != "fails" else tokens // 2):
            yield event({"choices": [{"text": "\u2028", "finish_reason": None}]})
            await asyncio.sleep(GAP_SECONDS)
        if model == "fails":
            yield event({"error": {"code": "worker_lost"}})
        elif model != "cut":
            if model != "uncounted":
                usage = {
                    "completion_tokens": tokens,
                    "prompt_tokens": len(body["prompt"]),
                    "prompt_tokens_details": {"cached_tokens": 3},
                }
                yield event({"choices": [], "usage": usage})
            yield b"data: [DONE]\r\n\r\n"


def event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


@contextmanager
def completion_server() -> Iterator[CompletionServer]:
    """It listens when this returns."""
    served = CompletionServer()
    route = Route("/v1/completions", served.answer, methods=["POST"])
    config = uvicorn.Config(Starlette(routes=[route]), port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    listener = config.bind_socket()
    served.port = listener.getsockname()[1]
    listener.listen()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive(), "the server does not end"
