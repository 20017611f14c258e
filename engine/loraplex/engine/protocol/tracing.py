"""Spans of one process: sent by OTLP where the standard OTEL_* variables name a receiver.

OpenTelemetry takes a third of a second to import, so nobody imports it where no span is wanted;
there a span costs less than a microsecond. An attribute never holds a prompt, a key or a name that
a tenant has given.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from enum import Enum, auto

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

TRACEPARENT = "traceparent"
"""W3C's name of the header that carries a span's name."""
Attributes = Mapping[str, str | int | float | bool]

_CURRENT: ContextVar[str | None] = ContextVar(TRACEPARENT, default=None)


class SpanKind(Enum):
    INTERNAL = auto()
    SERVER = auto()
    """It answers another process."""
    CLIENT = auto()
    """It waits for another process."""
    CONSUMER = auto()
    """It does what another process has asked for some time ago."""


class Span:
    """A span under way. This one is told to nobody."""

    traceparent: str | None = None
    """W3C's name of it, for whoever continues it."""
    trace_id: str | None = None

    def rename(self, name: str) -> None: ...

    def set(self, attributes: Attributes) -> None: ...

    def fail(self, reason: str) -> None:
        """It did not go well; `reason` is a code of ours."""


class Tracing:
    """One process's spans. This one has none."""

    is_on = False

    def span(
        self,
        name: str,
        *,
        parent: str | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
    ) -> AbstractContextManager[Span]:
        """What is done inside, under `parent` (a traceparent), else under the current span."""
        return _NO_SPAN

    def record(
        self,
        name: str,
        *,
        parent: str,
        started_at_ns: int,
        seconds: float,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
    ) -> str | None:
        """Something that is over (Unix nanoseconds); its traceparent."""
        return None

    def close(self) -> None:
        """Send what has not been sent yet."""


_NO_SPAN = nullcontext(Span())
NO_TRACING = Tracing()


def current_traceparent() -> str | None:
    """Of the span that this task, or the one that began it, is in."""
    return _CURRENT.get()


@contextmanager
def entered(traceparent: str | None) -> Iterator[None]:
    """Make a span the current one."""
    token = _CURRENT.set(traceparent)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment names a receiver and does not turn spans off."""
    return (
        any(environment.get(name) for name in ENDPOINTS)
        and environment.get("OTEL_SDK_DISABLED", "").lower() != "true"
        and environment.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
    )


def start_tracing(service: str, environment: Mapping[str, str]) -> Tracing:
    """The tracing of this process; `service` is its name unless OTEL_SERVICE_NAME gives one."""
    if not is_wanted(environment):
        return NO_TRACING
    from loraplex.engine.protocol.otlp import OtlpTracing

    return OtlpTracing(environment.get("OTEL_SERVICE_NAME") or f"loraplex-{service}")
