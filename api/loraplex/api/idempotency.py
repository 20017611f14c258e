"""Idempotency-Key on tenants' POSTs: the same key and request give the same answer.

A layer around the routes sees the key and, at the end, the answer; only inside is it known whose
request it is. So the layer leaves a `KeyedRequest` with the request, and the dependency that knows
the tenant claims the key there, before the route does anything.

What is kept is what the request led to: 2xx, 409 and 412. Any other refusal (a bad body, a missing
thing, a limit) and every failure of ours gives the key back, since nothing was done. Where a body
is read as JSON, its bytes belong to the request; of what is streamed (forms, files) only the
length does, since a form sent again has another boundary and reading it would be doing the work.

A stream of events is sent on as it comes and recorded beside, all but its last event, which waits
until the record is kept: whoever has seen `[DONE]` gets the very same events again. A stream that
ends in any other way (an error event, a client that left) gives the key back. Of an answer that is
too large only that it was given is kept, and it is refused by name rather than given anew.
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

from loraplex.api.openai.streams import DONE
from loraplex.api.served import VERSION_HEADER
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

PATHS = ("/api/v1/", "/v1/")
STATE = "keyed_request"
REPLAYED = "idempotency-replayed"
STREAM = "text/event-stream"
KEPT_HEADERS = ("content-type", "location", "etag", VERSION_HEADER)
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
        found = await service.claim(tenant.tenant_id, key, await fingerprint(request, tenant))
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


async def fingerprint(request: Request, tenant: "TenantPrincipal") -> bytes:
    """What makes this the same request as another: see above.

    An answer is its asker's alone: it may be of models that another's key is not for, or hold the
    text of a new key that may more than another may.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_streamed = media_type in ("multipart/form-data", "application/octet-stream")
    about = [
        request.method,
        request.url.path,
        request.url.query,
        request.headers.get("if-match", ""),
        media_type if is_streamed else "",
        request.headers.get("content-length", "") if is_streamed else "",
        str(tenant.key_id or tenant.member_id),
        *sorted(tenant.models or ()),
    ]
    body = b"" if is_streamed else await request.body()
    return json.dumps(about).encode() + b"\n" + body


async def replay(_: Request, answered: Exception) -> Response:
    """The exception handler of Replay."""
    assert isinstance(answered, Replay)
    answer = answered.answer
    headers = dict(answer.headers) | {REPLAYED: "true"}
    return Response(answer.body or b"", answer.status_code, headers)


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
    """Holds the answer back until it is kept: what a client has seen is what it gets again.

    Of a stream it holds the end back alone.
    """

    def __init__(self, keyed: KeyedRequest, send: Send) -> None:
        self.has_ended = False
        self._keyed = keyed
        self._send = send
        self._start: Message | None = None
        self._held: list[Message] = []
        self._body: list[bytes] = []
        self._size_bytes = 0

    async def __call__(self, message: Message) -> None:
        if self._keyed.claim is None or self.has_ended:
            await self._send(message)
            return
        if message["type"] == "http.response.start":
            self._start = message
        self._record(message.get("body", b""))
        if self._is_end(message):
            self.has_ended = True
            await asyncio.shield(self._keyed.end(self._answer()))
            for one in (*self._held, message):
                await self._send(one)
        elif self._is_stream:
            await self._send(message)
        else:
            self._held.append(message)

    def _record(self, data: bytes) -> None:
        self._size_bytes += len(data)
        self._body.append(data)
        if self._size_bytes > MAX_BODY_BYTES:
            self._body.clear()

    @property
    def _is_stream(self) -> bool:
        assert self._start is not None, "an answer begins with its start"
        return MutableHeaders(scope=self._start).get("content-type", "").startswith(STREAM)

    def _is_end(self, message: Message) -> bool:
        """Whether all is told that there is to tell."""
        if self._is_stream:
            return message.get("body") == DONE
        return message["type"] == "http.response.body" and not message.get("more_body")

    def _answer(self) -> StoredAnswer | None:
        assert self._start is not None, "an answer begins with its start"
        status: int = self._start["status"]
        if not (200 <= status < 300 or status in OUTCOMES):
            return None
        headers = MutableHeaders(scope=self._start)
        kept = {name: headers[name] for name in KEPT_HEADERS if name in headers}
        is_too_large = self._size_bytes > MAX_BODY_BYTES
        return StoredAnswer(status, kept, None if is_too_large else b"".join(self._body))
