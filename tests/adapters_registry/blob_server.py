"""An object store of a few lines that misbehaves as it is told."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from loraplex.engine.protocol.adapter import AdapterRef, AdapterSpec
from loraplex.engine.protocol.identity import TenantNamespace, digest_of_bytes


class Blobs(ThreadingHTTPServer):
    """Serves objects by path; `script` may answer first, and every request is counted."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.objects: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.knows_ranges = True
        self.script: Callable[[Answer], bool] = lambda answer: False

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def ref(self, data: bytes, *, namespace: str = "tenant", path: str | None = None) -> AdapterRef:
        digest = digest_of_bytes(data)
        path = path or f"/{digest}"
        self.objects.setdefault(path, data)
        spec = AdapterSpec(digest, digest, digest, len(data), ())
        return AdapterRef(spec, TenantNamespace(namespace), self.url(path))


class Answer(BaseHTTPRequestHandler):
    server: Blobs

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        if self.server.script(self):
            return
        data = self.server.objects.get(self.path)
        if data is None:
            self.send_error(404)
            return
        span = self.headers.get("Range")
        if span is None or not self.server.knows_ranges:
            self.send_bytes(data, len(data))
            return
        start, end = (int(number) for number in span.removeprefix("bytes=").split("-"))
        part = data[start : end + 1]
        self.send_bytes(part, len(part), status=206)

    def send_bytes(self, data: bytes, length: int, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # its own name
        pass
