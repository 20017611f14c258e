"""/metrics of a process that speaks no HTTP otherwise, on a thread of its own."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from loraplex.platform.exposition import CONTENT_TYPE, Exposition

PATH = "/metrics"


class MetricsHandler(BaseHTTPRequestHandler):
    server: "MetricsServer"

    def do_GET(self) -> None:
        """The one thing there is to be had."""
        if self.path != PATH:
            self.send_error(404)
            return
        text = self.server.exposition.text()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """A scrape every few seconds is no news."""


class MetricsServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        super().__init__((host, port), MetricsHandler)
        self.exposition = Exposition()


def serve_metrics(host: str, port: int) -> MetricsServer:
    """Answer until the process ends, or the server is shut down. Raises OSError: port taken."""
    server = MetricsServer(host, port)
    Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
