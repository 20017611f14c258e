"""A Hugging Face hub of one directory: the two endpoints that an import calls, over real HTTP."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """Serves `files` as `owner/name`; everything else is not found."""

    repo_id: str
    files: Path
    url: str = ""
    fetched: list[str] = field(default_factory=list)
    error_status: int = 404
    error_code: str = "RepoNotFound"


@contextmanager
def running_hub(hub: Hub) -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def log_message(self, *_: object) -> None:
            """Quiet."""

        def _answer(self, *, with_body: bool) -> None:
            path = urlsplit(self.path).path
            info = f"/api/models/{hub.repo_id}"
            resolve = f"/{hub.repo_id}/resolve/{COMMIT}/"
            if path in {info, f"{info}/revision/main", f"{info}/revision/v1"}:
                return self._send(200, _listing(hub), with_body=with_body)
            file = hub.files / path.removeprefix(resolve)
            if path.startswith(resolve) and file.is_file():
                if with_body:
                    hub.fetched.append(file.name)
                return self._send(200, file.read_bytes(), with_body=with_body)
            return self._send(hub.error_status, b"{}", with_body=with_body)

        def _send(self, status: int, body: bytes, *, with_body: bool) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            if status != 200:
                self.send_header("X-Error-Code", hub.error_code)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _listing(hub: Hub) -> bytes:
    siblings = [
        {"rfilename": path.name, "size": path.stat().st_size} for path in hub.files.iterdir()
    ]
    return json.dumps({"id": hub.repo_id, "sha": COMMIT, "siblings": siblings}).encode()
