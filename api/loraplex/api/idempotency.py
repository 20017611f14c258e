"""Idempotency-Key on the management API's POSTs: the same key and request give the same answer.

A layer around the routes sees the key and, at the end, the answer; only inside is it known whose
request it is. So the layer leaves a `KeyedRequest` with the request, and the dependency that knows
the tenant claims the key there, before the route does anything.

What is kept is what the request led to: 2xx, 409 and 412. Any other refusal (a bad body, a missing
thing, a limit) and every failure of ours gives the key back, since nothing was done. Where a body
is read as JSON, its bytes belong to the request; of what is streamed (forms, files) only the
length does, since a form sent again has another boundary and reading it would be doing the work.
"""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loraplex.platform.idempotency.errors import HEADER
from loraplex.platform.idempotency.service import (
    MAX_BODY_BYTES,
    RENEW_SECONDS,
    Idempotency,
    KeyClaim,
    StoredAnswer,
    check_key,
)

if TYPE_CHECKING:
    from loraplex.platform.tenancy.principals import TenantPrincipal

log = structlog.get_logger(__name__)

PATHS = ("/api/v1/",)
STATE = "keyed_request"
REPLAYED = "idempotency-replayed"
KEPT_HEADERS = ("content-type", "location", "etag")
OUTCOMES = frozenset({409, 412})
"""Statuses beside 2xx that a request led to, rather than was turned away with."""
DATABASE_ERRORS = (DBAPIError, PoolTimeout, OSError)


class Replay(Exception):
    """Not an error: the request was answered before, and so."""

    def __init__(self, answer: StoredAnswer) -> None:
        super().__init__("answered before")
        self.answer = answer


@dataclass
class KeyedRequest:
    """A request that came with a key, and what was claimed for it."""

    key: str
    claim: KeyClaim | None = None
    service: Idempotency | None = None
    _renewing: "asyncio.Task[None] | None" = field(default=None, repr=False)

    async def begin(
        self, service: Idempotency, tenant: "TenantPrincipal", request: Request
    ) -> None:
        """Claim the key; raises Replay and the errors of `idempotency`."""
        key = check_key(self.key)
        found = await service.claim(tenant.tenant_id, key, await fingerprint(request))
        if isinstance(found, StoredAnswer):
            raise Replay(found)
        self.service, self.claim = service, found
        self._renewing = asyncio.create_task(self._keep_renewing(service, found))

    async def end(self, answer: StoredAnswer | None) -> None:
        """Keep the answer, or give the key back."""
        if self.service is None or self.claim is None:
            return
        if self._renewing is not None:
            self._renewing.cancel()
        try:
            if answer is None:
                await self.service.release(self.claim)
            else:
                await self.service.keep(self.claim, answer)
        except DATABASE_ERRORS as error:
            # The answer is true all the same; the claim lapses by itself.
            log.warning("idempotent_answer_not_kept", error=type(error).__name__)

    @staticmethod
    async def _keep_renewing(service: Idempotency, claim: KeyClaim) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            with suppress(*DATABASE_ERRORS):
                await service.renew(claim)


async def begin_keyed_request(
    service: Idempotency, tenant: "TenantPrincipal", request: Request
) -> None:
    """For the dependency that knows the tenant: claim the request's key, if it has one.

    Raises Replay and the errors of `idempotency`.
    """
    keyed: KeyedRequest | None = request.scope.get(STATE)
    if keyed is not None:
        await keyed.begin(service, tenant, request)


async def fingerprint(request: Request) -> bytes:
    """What makes this the same request as another: see above."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_streamed = media_type in ("multipart/form-data", "application/octet-stream")
    about = [
        request.method,
        request.url.path,
        request.url.query,
        request.headers.get("if-match", ""),
        media_type if is_streamed else "",
        request.headers.get("content-length", "") if is_streamed else "",
    ]
    body = b"" if is_streamed else await request.body()
    return json.dumps(about).encode() + b"\n" + body


async def replay(_: Request, answered: Exception) -> Response:
    """The exception handler of Replay."""
    assert isinstance(answered, Replay)
    answer = answered.answer
    headers = dict(answer.headers) | {REPLAYED: "true"}
    return Response(answer.body, answer.status_code, headers)


class KeyedRequests:
    """The layer around the routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = self._key(scope)
        if key is None:
            await self._app(scope, receive, send)
            return
        keyed = scope[STATE] = KeyedRequest(key)
        answer = _HeldAnswer(keyed, send)
        try:
            await self._app(scope, receive, answer)
        finally:
            if not answer.has_ended:
                await asyncio.shield(keyed.end(None))

    @staticmethod
    def _key(scope: Scope) -> str | None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return None
        if not scope["path"].startswith(PATHS):
            return None
        return Headers(scope=scope).get(HEADER)


class _HeldAnswer:
    """Holds the answer back until it is kept: what a client has seen is what it gets again."""

    def __init__(self, keyed: KeyedRequest, send: Send) -> None:
        self.has_ended = False
        self._keyed = keyed
        self._send = send
        self._held: list[Message] = []
        self._size_bytes = 0

    async def __call__(self, message: Message) -> None:
        if self._keyed.claim is None or self.has_ended:
            await self._send(message)
            return
        self._held.append(message)
        self._size_bytes += len(message.get("body", b""))
        is_too_large = self._size_bytes > MAX_BODY_BYTES
        is_last = message["type"] == "http.response.body" and not message.get("more_body")
        if not (is_last or is_too_large):
            return
        self.has_ended = True
        await asyncio.shield(self._keyed.end(None if is_too_large else self._answer()))
        for one in self._held:
            await self._send(one)

    def _answer(self) -> StoredAnswer | None:
        start = self._held[0]
        status: int = start["status"]
        if not (200 <= status < 300 or status in OUTCOMES):
            return None
        headers = MutableHeaders(scope=start)
        kept = {name: headers[name] for name in KEPT_HEADERS if name in headers}
        body = b"".join(message.get("body", b"") for message in self._held[1:])
        return StoredAnswer(status, kept, body)
