"""The outermost layer of a gateway: request ids, size limits, headers, counts, the last resort.

Plain ASGI, because Starlette's own middleware base hides a client's hang-up from streams.
"""

import re
from collections.abc import Mapping
from time import monotonic
from typing import Any

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loraplex.api.arrival import name_request
from loraplex.api.errors import INTERNAL, render, respond
from loraplex.api.metrics import Metrics
from loraplex.api.refusals import BodyTooLarge
from loraplex.api.validation import refuse_nul_in_address
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.protocol.tracing import TRACEPARENT, Span, SpanKind, Tracing
from loraplex.platform.logs import bind_request, bound_fields

log = structlog.get_logger(__name__)

MAX_JSON_BYTES = 8 * 1024 * 1024
FORM_BYTES = 1024 * 1024
"""What a form's own lines, and the piece that just came, may add to its files: the form's reader
is the first to see a file that is too large, and can name it."""
UPLOAD_PATH = re.compile(r"/api/v1/adapters/[^/]+/versions")
PART_PATH = re.compile(r"/api/v1/uploads/[^/]+/files/[^/]+/parts/[^/]+")


def security_headers(store_origin: str | None) -> dict[str, str]:
    """What every answer tells browsers; pages may reach us, and the store where clients do."""
    connect = "connect-src 'self'" + (f" {store_origin}" if store_origin else "")
    return {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
        "Content-Security-Policy": (
            f"default-src 'self'; {connect}; img-src 'self' data:; "
            "style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'none'; "
            "form-action 'self'; frame-ancestors 'none'"
        ),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }


NOT_STORED = ("/v1", "/api/")


class Edge:
    """Wraps the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        tracing: Tracing,
        max_upload_bytes: int,
        max_part_bytes: int,
        store_origin: str | None,
    ) -> None:
        self._app = app
        self._headers = security_headers(store_origin)
        self._metrics = metrics
        self._tracing = tracing
        self._max_upload_bytes = max_upload_bytes
        self._max_part_bytes = max_part_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope["path"], name_request(scope), self._headers, send)
        parent = Headers(scope=scope).get(TRACEPARENT) if self._tracing.is_on else None
        with (
            self._tracing.span("request", parent=parent, kind=SpanKind.SERVER) as span,
            bind_request(answer.request_id, span.trace_id),
        ):
            await self._answer(scope, receive, answer, span)

    async def _answer(self, scope: Scope, receive: Receive, answer: "_Answer", span: Span) -> None:
        started = monotonic()
        try:
            await self._guarded(scope, receive, answer)
        except ClientDisconnect:
            log.info("client_left")
        except Exception as error:
            log.error("unexpected_error", exc_info=error)
            if answer.status is not None:
                raise  # too late for words: the server closes the connection
            await respond(scope["path"], 500, INTERNAL, "internal_error")(scope, receive, answer)
        finally:
            self._count(scope, answer, monotonic() - started, span)

    async def _guarded(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        limit_bytes = self._limit_of(scope)
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > limit_bytes:
            refusal = render(scope["path"], BodyTooLarge(limit_bytes))
            await refusal(scope, receive, answer)
            return
        try:
            refuse_nul_in_address(scope["path"], scope["query_string"])
        except DomainError as error:
            await render(scope["path"], error)(scope, receive, answer)
            return
        await self._app(scope, _limited(receive, limit_bytes), answer)

    def _limit_of(self, scope: Scope) -> int:
        if UPLOAD_PATH.fullmatch(scope["path"]):
            return self._max_upload_bytes + FORM_BYTES
        if PART_PATH.fullmatch(scope["path"]):
            return self._max_part_bytes + FORM_BYTES
        return MAX_JSON_BYTES

    def _count(self, scope: Scope, answer: "_Answer", seconds: float, span: Span) -> None:
        route = getattr(scope.get("route"), "path", "other")
        status = answer.status or 499
        self._metrics.http_requests.labels(route, _method(scope), str(status)).inc()
        self._metrics.http_seconds.labels(route).observe(seconds)
        if self._tracing.is_on:
            span.rename(f"{_method(scope)} {route}")
            span.set(bound_fields() | {"http.route": route, "http.response.status_code": status})
        log.info(
            "request",
            method=scope["method"],
            route=route,
            status=status,
            milliseconds=round(1000 * seconds),
        )


class _Answer:
    """The way back to the client: adds headers, remembers the status."""

    def __init__(self, path: str, request_id: str, headers: Mapping[str, str], send: Send) -> None:
        self.request_id = request_id
        self.status: int | None = None
        self._path = path
        self._headers = headers
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self.request_id
            for name, value in self._headers.items():
                headers.setdefault(name, value)
            if self._path.startswith(NOT_STORED):
                headers.setdefault("Cache-Control", "no-store")
        await self._send(message)


def _limited(receive: Receive, limit_bytes: int) -> Receive:
    """`receive` that raises BodyTooLarge at the first byte too many, whatever was declared."""
    received_bytes = 0

    async def limited() -> Message:
        nonlocal received_bytes
        message = await receive()
        if message["type"] == "http.request":
            received_bytes += len(message.get("body", b""))
            if received_bytes > limit_bytes:
                raise BodyTooLarge(limit_bytes)
        return message

    return limited


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _method(scope: Scope) -> Any:
    """Any word can be a method; a label may be only a known one."""
    return scope["method"] if scope["method"] in METHODS else "other"
