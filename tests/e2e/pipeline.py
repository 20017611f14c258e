"""Holds an upload at a stage of the pipeline, so that a process can be killed right there.

Every hold is real and exact: a stopped process, a lock in Postgres that the pipeline waits for, a
file lock that the validator waits for before its first line, a source that sends no more. Nothing
waits for luck, and the product knows nothing of it.
"""

import contextlib
import fcntl
import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, LiteralString

import httpx
import psutil
import psycopg
from psycopg.rows import dict_row
from safetensors.numpy import load_file, save

from tests.e2e.conftest import ADAPTERS, Platform, wait_for

PROCESSES = {
    "jobs": "loraplex.platform.cli jobs",
    "controller": "loraplex.platform.cli controller",
    "valkey": "valkey-server",
    "postgres": "postgres",
    "object store": "nanio",
}
"""What may be killed, and how its command line is known."""

VALIDATOR = "loraplex.adapters_registry.validator"

GATE_MODULE = '''\
"""Lets a validator begin only while nobody holds the gate shut."""

import fcntl
import os
import sys
from pathlib import Path

if "loraplex.adapters_registry.validator" in sys.orig_argv:
    folder = Path(__file__).parent
    with (folder / "gate").open() as gate:
        (folder / f"waiting-{os.getpid()}").touch()
        fcntl.flock(gate, fcntl.LOCK_SH)
'''


class Gate:
    """Where validators wait while it is shut: a `sitecustomize` of their interpreter."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(GATE_MODULE)
        self.folder = folder
        self._file = (folder / "gate").open("w")

    def close(self) -> None:
        self._file.close()

    def shut(self) -> None:
        for told in self.folder.glob("waiting-*"):
            told.unlink()
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def open(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def has_somebody_waiting(self) -> bool:
        return any(self.folder.glob("waiting-*"))


@dataclass
class Files:
    """An adapter that nobody else has uploaded."""

    name: str
    config: bytes = field(init=False)
    weights: bytes = field(init=False)

    def __post_init__(self) -> None:
        folder = ADAPTERS / "shout"
        self.config = (folder / "adapter_config.json").read_bytes()
        tensors = load_file(folder / "adapter_model.safetensors")
        self.weights = save(tensors, metadata={"made_for": self.name})


@dataclass
class Source:
    """A web server with an adapter's files, which holds the weights back in the middle."""

    files: Files
    arrived: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    url: str = ""


@contextmanager
def serving_source(files: Files) -> Iterator[Source]:
    source = Source(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_config = self.path == "/adapter_config.json"
            body = files.config if is_config else files.weights
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body[:1000])
                if not is_config:
                    source.arrived.set()
                    source.go_on.wait(60)
                self.wfile.write(body[1000:])

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        source.url = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield source
        finally:
            source.go_on.set()
            server.shutdown()
            thread.join()


@dataclass
class Pipeline:
    """A platform whose pipeline can be held, and one tenant's way in."""

    platform: Platform
    gate: Gate

    @property
    def url(self) -> str:
        services = json.loads((self.platform.data_dir / "run" / "services.json").read_text())
        url: str = services["database_system_url"]
        return url

    def client(self) -> httpx.Client:
        return self.platform.client(self.platform.key("acme"), timeout=90)

    def rows(self, query: LiteralString, **values: object) -> list[dict[str, Any]]:
        """What the database says; nothing while it is away."""
        try:
            with psycopg.connect(self.url, row_factory=dict_row, connect_timeout=5) as connection:
                return connection.execute(query, values).fetchall()
        except psycopg.OperationalError:
            return []

    def processes(self, kind: str) -> list[psutil.Process]:
        """The oldest process of a kind and its descendants; none while it dies."""
        found = self.platform.children(PROCESSES[kind])
        try:
            for eldest in sorted(found, key=lambda process: process.create_time()):
                return [eldest, *eldest.children(recursive=True)]
        except psutil.NoSuchProcess:  # between the two looks
            pass
        return []

    @contextmanager
    def stopped(self, kind: str) -> Iterator[None]:
        """Every process of a kind stands still; those that live on go on afterwards."""
        processes = wait_for(f"a {kind}", lambda: self.processes(kind))
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)

    @contextmanager
    def shut_gate(self) -> Iterator[None]:
        """The next upload to be validated waits, in a process of its own that has not begun."""
        self.gate.shut()
        for idle in self.platform.children(VALIDATOR):  # it waits for uploads behind the gate
            with contextlib.suppress(psutil.NoSuchProcess):
                idle.kill()
        try:
            yield
        finally:
            self.gate.open()

    @contextmanager
    def locked(self, statement: LiteralString, **values: object) -> Iterator[Callable[[], bool]]:
        """A transaction that holds a lock; what it gives says whether somebody waits for it."""
        connection = psycopg.connect(self.url)
        try:
            connection.execute(statement, values)
            own = connection.info.backend_pid
            blocked = (
                "SELECT 1 FROM pg_locks WHERE NOT granted AND %(own)s = ANY (pg_blocking_pids(pid))"
            )
            yield lambda: bool(self.rows(blocked, own=own))
        finally:
            connection.close()

    def kill(self, kind: str) -> None:
        """`kill -9` of the eldest process of a kind; returns when another one has taken over."""
        victim, *_ = wait_for(f"a {kind}", lambda: self.processes(kind))
        victim.kill()

        def successor() -> bool:
            return any(process.pid != victim.pid for process in self.processes(kind)[:1])

        wait_for(f"a new {kind}", successor, explain=lambda: self.platform.log[-3000:])


@dataclass
class Submission:
    """A client that uploads a form and tries again until the platform has accepted it."""

    pipeline: Pipeline
    files: Files
    accepted: threading.Event = field(default_factory=threading.Event)
    refused: list[str] = field(default_factory=list)

    def __enter__(self) -> "Submission":
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.thread.join()

    def _run(self) -> None:
        form = {
            "adapter_config": ("adapter_config.json", self.files.config),
            "adapter_model": ("adapter_model.safetensors", self.files.weights),
        }
        while not self.is_over.is_set() and not self.accepted.is_set():
            try:
                with self.pipeline.client() as client:
                    path = f"/api/v1/adapters/{self.files.name}/versions"
                    answer = client.post(path, files=form)
            except httpx.HTTPError as error:
                self.refused.append(type(error).__name__)
            else:
                if answer.status_code in (200, 202):
                    self.accepted.set()
                    return
                assert answer.status_code == 503, answer.text
                self.refused.append(answer.json()["code"])
            self.is_over.wait(0.5)


@dataclass(frozen=True)
class Case:
    """One adapter on its way: what holds it at a stage, and who brings it in.

    `hold` is let go after the kill; `clients` stay until the adapter is ready.
    """

    pipeline: Pipeline
    files: Files
    hold: ExitStack
    clients: ExitStack

    def held_by(self, hold: ExitStack) -> "Case":
        """The same case, held at an earlier stage for a moment."""
        return replace(self, hold=hold)

    def submit(self) -> Submission:
        return self.clients.enter_context(Submission(self.pipeline, self.files))

    def submit_and_wait(self) -> None:
        submission = self.submit()
        assert submission.accepted.wait(60), submission.refused

    def upload_in_parts(self) -> None:
        """A resumable upload, up to the answer that it completes."""
        files = {
            "adapter_config.json": self.files.config,
            "adapter_model.safetensors": self.files.weights,
        }
        sizes = [{"name": name, "size_bytes": len(data)} for name, data in files.items()]
        with self.pipeline.client() as client:
            made = client.post("/api/v1/uploads", json={"adapter": self.files.name, "files": sizes})
            assert made.status_code == 201, made.text
            place = f"/api/v1/uploads/{made.json()['id']}"
            for file in made.json()["files"]:
                data = files[file["name"]]
                for start in range(0, len(data), file["part_bytes"]):
                    number = start // file["part_bytes"] + 1
                    part = data[start : start + file["part_bytes"]]
                    path = f"{place}/files/{file['name']}/parts/{number}"
                    assert client.put(path, content=part).is_success
            answer = client.post(f"{place}/complete", json={})
            assert answer.status_code == 202, answer.text

    def is_completion_begun(self) -> bool:
        begun = "SELECT 1 FROM uploads WHERE adapter_name = %(name)s AND claimed_at IS NOT NULL"
        return bool(self.pipeline.rows(begun, name=self.files.name))

    def version(self) -> dict[str, Any] | None:
        found = self.versions()
        return found[0] if found else None

    def versions(self) -> list[dict[str, Any]]:
        return self.pipeline.rows(
            "SELECT v.id::text, v.status, v.attempts, v.number FROM adapter_versions v"
            " JOIN adapters a ON a.id = v.adapter_id WHERE a.name = %(name)s",
            name=self.files.name,
        )

    def has_status(self, status: str) -> bool:
        found = self.version()
        return found is not None and found["status"] == status

    def is_message_published(self) -> bool:
        messages = self.messages()
        return bool(messages) and all(one["published_at"] is not None for one in messages)

    def messages(self) -> list[dict[str, Any]]:
        """What was asked for in the version's name."""
        return self.pipeline.rows(
            "SELECT o.published_at FROM outbox o"
            " JOIN adapter_versions v ON o.arguments ->> 'version_id' = v.id::text"
            " JOIN adapters a ON a.id = v.adapter_id WHERE a.name = %(name)s",
            name=self.files.name,
        )

    def explain(self) -> str:
        """What the platform knows of the adapter, and its last words."""
        imports = self.pipeline.rows(
            "SELECT status, attempts, last_error FROM imports WHERE adapter_name = %(name)s",
            name=self.files.name,
        )
        versions = self.pipeline.rows(
            "SELECT v.status, v.attempts, v.last_error, v.deadline_at, now() FROM"
            " adapter_versions v JOIN adapters a ON a.id = v.adapter_id WHERE a.name = %(name)s",
            name=self.files.name,
        )
        log = self.pipeline.platform.data_dir / "logs" / "jobs.log"
        uploads = self.pipeline.rows(
            "SELECT status, attempts, last_error, error FROM uploads WHERE adapter_name = %(name)s",
            name=self.files.name,
        )
        return f"{versions}\n{uploads}\n{imports}\n{log.read_text()[-2000:]}"

    def bring_deadlines_forward(self) -> None:
        """As if time had passed for what waits of this adapter; nothing else is touched."""
        for statement in DEADLINES:
            with psycopg.connect(self.pipeline.url, connect_timeout=5) as connection:
                connection.execute(statement, {"name": self.files.name})


DEADLINES: tuple[LiteralString, ...] = (
    "UPDATE adapter_versions v SET deadline_at = now() FROM adapters a"
    " WHERE a.id = v.adapter_id AND a.name = %(name)s AND v.status IN ('uploaded', 'validating')",
    "UPDATE uploads SET deadline_at = now()"
    " WHERE adapter_name = %(name)s AND status = 'completing'",
    "UPDATE imports SET deadline_at = now()"
    " WHERE adapter_name = %(name)s AND status IN ('queued', 'fetching')",
)
VERSION_ROW: LiteralString = (
    "SELECT 1 FROM adapter_versions v JOIN adapters a ON a.id = v.adapter_id"
    " WHERE a.name = %(name)s FOR UPDATE OF v"
)
"""Takes a version's row away from whoever would record a verdict."""
NEW_ADAPTERS: LiteralString = "LOCK TABLE adapters IN SHARE MODE"
"""Holds up whoever would register bytes."""
