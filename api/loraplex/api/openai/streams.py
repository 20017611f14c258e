"""Server-sent events: frames on the wire, and a response that ends when its client goes."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

DONE = b"data: [DONE]\n\n"
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


def frame(event: Mapping[str, object]) -> bytes:
    """One `data:` line."""
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + text.encode() + b"\n\n"


class EventStream(Response):
    """Sends frames as they come; when the client hangs up, the frames' generator is closed."""

    def __init__(
        self,
        frames: AsyncGenerator[bytes, None],
        headers: Mapping[str, str],
        on_close: Callable[[], object],
    ) -> None:
        """`on_close` is called at the end, even of a stream whose frames nobody ever took."""
        super().__init__(headers={**headers, **HEADERS})
        del self.headers["content-length"]  # not known, and an empty body would claim 0
        self._frames = frames
        self._on_close = on_close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        watching = asyncio.create_task(until_gone(receive))
        try:
            await asyncio.wait({sending, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            sending.cancel()
            await asyncio.gather(sending, watching, return_exceptions=True)
            await self._frames.aclose()
            self._on_close()
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        async for data in self._frames:
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def until_gone(receive: Receive) -> None:
    """Return when the client has closed its socket. The body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


class ClientGone(Exception):
    """The client hung up before there was anything to answer."""


async def unless_gone(request: Request, work: "asyncio.Task[None]") -> None:
    """Wait for `work`; cancels it and raises ClientGone when the client hangs up first."""
    watching = asyncio.create_task(until_gone(request.receive))
    try:
        await asyncio.wait({work, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientGone
        work.result()
    finally:
        for task in (work, watching):
            task.cancel()
        await asyncio.gather(work, watching, return_exceptions=True)
