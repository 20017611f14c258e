"""A receiver of spans: OTLP over HTTP, as a collector speaks it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ReceivedSpan:
    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    seconds: float
    text: str
    """All of it, as protobuf prints it."""


class Handler(BaseHTTPRequestHandler):
    server: "OtlpReceiver"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportTraceServiceRequest.FromString(body)
        for group in request.resource_spans:
            names = {one.key: one.value.string_value for one in group.resource.attributes}
            for scope in group.scope_spans:
                self.server.spans += [
                    ReceivedSpan(
                        service=names["service.name"],
                        name=span.name,
                        trace_id=span.trace_id.hex(),
                        span_id=span.span_id.hex(),
                        parent_id=span.parent_span_id.hex(),
                        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                        text=str(span),
                    )
                    for span in scope.spans
                ]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Spans come all the time."""


class OtlpReceiver(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[ReceivedSpan] = []

    @property
    def environment(self) -> dict[str, str]:
        """What sends a process's spans here, soon after they have ended."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server_port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    server = OtlpReceiver()
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
