"""A control plane reduced to its HTTP server: it records what workers say to it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import SimpleQueue
from typing import Any

ANSWER_SECONDS = 60.0
"""Longer than loading a small model takes on a busy machine."""

Call = tuple[str, str, dict[str, Any]]


class ControlPlane:
    """Records calls, and answers each with the status that `answer` chooses."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Call] = SimpleQueue()
        self.answer: Callable[[str], int] = lambda method: 200
        self.lease: dict[str, Any] = {"lease_seconds": 0.1}
        self.port = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        plane = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                plane.calls.put((self.command, self.path, json.loads(body or b"{}")))
                self.send_response(plane.answer(self.command))
                self.end_headers()
                self.wfile.write(json.dumps(plane.lease).encode())

            do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        with HTTPServer(("127.0.0.1", self.port), Handler) as server:
            self.port = server.server_port
            thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
            thread.start()
            yield
            server.shutdown()
            thread.join()

    def next_call(self) -> Call:
        return self.calls.get(timeout=ANSWER_SECONDS)

    def next_method(self, wanted: str) -> Call:
        while (call := self.next_call())[0] != wanted:
            pass
        return call
