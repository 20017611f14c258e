"""A web server of the tests' own, and a resolver that the test plays."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from ssl import SSLContext

from loraplex.platform.outbound.addresses import Address

Respond = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class WebServer:
    """Answers with `respond`, and remembers what it was asked."""

    respond: Respond
    tls: SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = lines[0].split(" ")
            pairs = (line.partition(": ") for line in lines[1:] if line)
            headers = {name.lower(): value for name, _, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            asked = Asked(method, target, headers, body)
            self.asked.append(asked)
            await self.respond(asked, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(respond: Respond, tls: SSLContext | None = None) -> AsyncIterator[WebServer]:
    web = WebServer(respond, tls)
    server = await asyncio.start_server(web.serve, "127.0.0.1", 0, ssl=tls)
    web.port = server.sockets[0].getsockname()[1]
    async with server:
        yield web


def answering(
    body: bytes = b"hello", status: str = "200 OK", headers: Sequence[str] = ()
) -> Respond:
    """The same answer to everything."""

    async def respond(_: Asked, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode() + body)

    return respond


@dataclass
class Names:
    """A resolver that answers each name with its lists of addresses, one list a question."""

    answers: dict[str, list[list[str]]]
    questions: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> list[Address]:
        self.questions.append(host)
        lists = self.answers.get(host, [[]])
        texts = lists.pop(0) if len(lists) > 1 else lists[0]
        return [ip_address(text) for text in texts]
