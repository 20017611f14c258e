"""Calls addresses that people outside gave us, within limits of time, size and redirects.

Keeps nothing between calls: no cookies, no credentials, no proxies from the environment.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Self

import httpx

from loraplex.engine.protocol.identity import Digest
from loraplex.platform.outbound.errors import (
    AddressInvalid,
    AnswerEncoded,
    AnswerTooLarge,
    AnswerTooSlow,
    HostUnreachable,
    TooManyRedirects,
)
from loraplex.platform.outbound.rules import OutboundRules
from loraplex.platform.outbound.transport import (
    CheckedBackend,
    CheckedTransport,
    Resolve,
    resolve_host,
)
from loraplex.platform.settings import Settings

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
WRITE_BYTES = 1024 * 1024
ALWAYS_SENT = {"accept-encoding": "identity", "user-agent": "loraplex"}
TIMEOUT = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)


@dataclass(frozen=True)
class Hop:
    """An answer that sent us on, or the last one; header names are case-insensitive."""

    host: str
    status: int
    headers: httpx.Headers


@dataclass(frozen=True)
class Saved:
    """What was written of an answer's body."""

    size_bytes: int
    digest: Digest


class Answer:
    """The last answer of a call. Its body is read at most once, in one of the two ways."""

    def __init__(self, response: httpx.Response, host: str, hops: tuple[Hop, ...]) -> None:
        self._response = response
        self.host = host
        self.status = response.status_code
        self.headers = response.headers
        self.hops = hops
        """Every answer in order, this one last."""

    async def head(self, limit_bytes: int) -> bytes:
        """The body's first bytes; the rest is not read."""
        body = bytearray()
        async for chunk in self._response.aiter_raw():
            body += chunk
            if len(body) >= limit_bytes:
                break
        return bytes(body[:limit_bytes])

    async def save(self, file: BinaryIO, limit_bytes: int) -> Saved:
        """Write the body to a file, and hash it on the way.

        Raises AnswerTooLarge as soon as it is known, AnswerEncoded.
        """
        encoding = self.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise AnswerEncoded(self.host, encoding)
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit_bytes:
            raise AnswerTooLarge(self.host, limit_bytes)
        digest, size_bytes = hashlib.sha256(), 0

        def write(chunk: bytes) -> None:
            digest.update(chunk)
            file.write(chunk)

        async for chunk in self._response.aiter_raw(WRITE_BYTES):
            size_bytes += len(chunk)
            if size_bytes > limit_bytes:
                raise AnswerTooLarge(self.host, limit_bytes)
            await asyncio.to_thread(write, chunk)
        return Saved(size_bytes, Digest(f"sha256:{digest.hexdigest()}"))


class OutboundClient:
    """Connections to the world outside, for one event loop. Use it as a context manager."""

    def __init__(self, rules: OutboundRules, transport: httpx.AsyncBaseTransport) -> None:
        self.rules = rules
        self._transport = transport

    @classmethod
    def from_settings(cls, settings: Settings, resolve: Resolve = resolve_host) -> Self:
        """Connects to nothing yet. Raises InvalidPrivateHosts."""
        rules = OutboundRules.from_settings(settings)
        backend = CheckedBackend(rules.private_hosts, resolve)
        return cls(rules, CheckedTransport(backend, settings.outbound_ca_file))

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._transport.__aexit__(kind, error, traceback)

    @asynccontextmanager
    async def call(
        self,
        method: str,
        url: str,
        *,
        seconds: float,
        headers: Mapping[str, str] | None = None,
        credentials: Mapping[str, str] | None = None,
        content: bytes | None = None,
        redirects: int = 0,
    ) -> AsyncIterator[Answer]:
        """One call, from resolving to the end of the with-block, within `seconds`.

        `headers` go to every host, `credentials` to the first origin alone. Up to `redirects` are
        followed, each checked like the first address, and never from https to http; with 0 a
        redirect is an answer like another. Any status is an answer.
        Raises the errors of `outbound.errors`.
        """
        assert redirects == 0 or method == "GET", "nothing but a GET may be repeated elsewhere"
        target = self.rules.check(url)
        first = origin(target)
        hops: list[Hop] = []
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                while True:
                    host = target.host
                    sent = dict(headers or {}) | ALWAYS_SENT
                    if origin(target) == first:
                        sent |= credentials or {}
                    request = httpx.Request(
                        method,
                        target,
                        headers=sent,
                        content=content,
                        extensions={"timeout": TIMEOUT.as_dict()},
                    )
                    with translated(host):
                        response = await self._transport.handle_async_request(request)
                        response.request = request
                        try:
                            hops.append(Hop(host, response.status_code, response.headers))
                            if not (redirects and response.has_redirect_location):
                                yield Answer(response, host, tuple(hops))
                                return
                        finally:
                            await response.aclose()
                    if len(hops) > redirects:
                        raise TooManyRedirects(host, redirects)
                    target = self._next(target, response.headers["location"])
        except TimeoutError:
            if not deadline.expired():
                raise
            raise AnswerTooSlow(target.host, seconds) from None

    def _next(self, target: httpx.URL, location: str) -> httpx.URL:
        try:
            onward = target.join(location)
        except httpx.InvalidURL:
            rule = "a redirect to a URL"
            raise AddressInvalid(f"{target.host!r} sent us on to no URL.", rule=rule) from None
        if target.scheme == "https" and onward.scheme != "https":
            raise AddressInvalid(
                f"{target.host!r} sent us on to an address that is not encrypted.",
                rule="redirects stay with https",
            )
        return self.rules.check(str(onward))


def origin(url: httpx.URL) -> tuple[str, str, int | None]:
    """Scheme, host and port: what credentials belong to."""
    return url.scheme, url.host, url.port


@contextmanager
def translated(host: str) -> Iterator[None]:
    """httpx's errors as ours."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise HostUnreachable(host, "stopped answering") from error
    except httpx.ConnectError as error:
        if is_about_certificate(error):
            raise HostUnreachable(host, "has no certificate that could be verified") from error
        raise HostUnreachable(host, "could not be connected to") from error
    except httpx.TransportError as error:
        raise HostUnreachable(host, "broke off or did not speak HTTP") from error


def is_about_certificate(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
