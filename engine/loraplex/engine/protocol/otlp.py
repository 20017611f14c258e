"""Spans by OpenTelemetry's SDK, sent in batches from a thread of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from loraplex.engine.protocol.tracing import (
    TRACEPARENT,
    Attributes,
    Span,
    SpanKind,
    Tracing,
    current_traceparent,
    entered,
)

FLUSH_MILLISECONDS = 2000
KINDS = {
    SpanKind.INTERNAL: trace.SpanKind.INTERNAL,
    SpanKind.SERVER: trace.SpanKind.SERVER,
    SpanKind.CLIENT: trace.SpanKind.CLIENT,
    SpanKind.CONSUMER: trace.SpanKind.CONSUMER,
}
_PROPAGATOR = TraceContextTextMapPropagator()


class OtlpSpan(Span):
    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self.traceparent = traceparent_of(span)
        self.trace_id = trace.format_trace_id(span.get_span_context().trace_id)

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(attributes)

    def fail(self, reason: str) -> None:
        self._span.set_status(trace.StatusCode.ERROR, reason)


class OtlpTracing(Tracing):
    """The receiver, headers, sampling and batches are as the OTEL_* variables have them."""

    is_on = True

    def __init__(self, service: str) -> None:
        self._provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service}))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("loraplex")

    @contextmanager
    def span(
        self,
        name: str,
        *,
        parent: str | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
    ) -> Iterator[Span]:
        started = OtlpSpan(self._start(name, parent, kind, attributes, None))
        try:
            with entered(started.traceparent):
                yield started
        except BaseException as error:
            # The class alone: an error's text may quote what a client sent.
            started.fail(type(error).__name__)
            raise
        finally:
            started._span.end()

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
        span = self._start(name, parent, kind, attributes, started_at_ns)
        span.end(started_at_ns + round(seconds * 1e9))
        return traceparent_of(span)

    def close(self) -> None:
        self._provider.force_flush(FLUSH_MILLISECONDS)
        self._provider.shutdown()

    def _start(
        self,
        name: str,
        parent: str | None,
        kind: SpanKind,
        attributes: Attributes | None,
        started_at_ns: int | None,
    ) -> trace.Span:
        continued = parent or current_traceparent()
        return self._tracer.start_span(
            name,
            context=_PROPAGATOR.extract({TRACEPARENT: continued} if continued else {}),
            kind=KINDS[kind],
            attributes=attributes,
            start_time=started_at_ns,
        )


def traceparent_of(span: trace.Span) -> str:
    context = span.get_span_context()
    return (
        f"00-{trace.format_trace_id(context.trace_id)}-{trace.format_span_id(context.span_id)}"
        f"-{context.trace_flags:02x}"
    )
