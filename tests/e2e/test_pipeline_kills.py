"""`kill -9` of any process at any stage of the pipeline: no upload is lost, none becomes two.

`make test` walks every stage once, with each process killed at some of them; the whole matrix is
`make soak`'s. There, deadlines pass by themselves; in the sample they are brought forward.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, start_platform, wait_for
from tests.e2e.pipeline import (
    NEW_ADAPTERS,
    PROCESSES,
    VERSION_ROW,
    Case,
    Files,
    Gate,
    Pipeline,
    serving_source,
)
from tests.soak import SOAK

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

DEADLINE_SECONDS = 180
"""From the kill to ready: leases, waits in the queue and restarts on a busy machine."""
PATIENCE_SECONDS = 3

Hold = Callable[[Case], None]
"""Brings an adapter to a stage and keeps it there."""


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory, smollm2_dir: Path) -> Iterator[Pipeline]:
    folder = tmp_path_factory.mktemp("pipeline")
    with closing(Gate(folder / "gate")) as gate:
        path = os.pathsep.join(filter(None, [str(gate.folder), os.environ.get("PYTHONPATH")]))
        started = start_platform(
            folder / "data",
            model_dir=smollm2_dir,
            cwd=ROOT,
            PYTHONPATH=path,
            LORAPLEX_OUTBOUND_HTTP="1",
            LORAPLEX_OUTBOUND_PORTS="1024-65535",
            LORAPLEX_OUTBOUND_PRIVATE_HOSTS="127.0.0.1",
        )
        yield Pipeline(started, gate)
        started.stop()


def received(case: Case) -> None:
    """The gateway has all bytes; the store takes none."""
    case.hold.enter_context(case.pipeline.stopped("object store"))
    case.submit()
    folder = case.pipeline.platform.data_dir / "uploads"

    def has_come() -> bool:
        sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
        return len(case.files.weights) in sizes

    wait_for("the form's files", has_come)


def stored(case: Case) -> None:
    """The store has the bytes; the row waits."""
    is_waited_for = case.hold.enter_context(case.pipeline.locked(NEW_ADAPTERS))
    case.submit()
    wait_for("the row to wait", is_waited_for)


def committed(case: Case) -> None:
    """Row and message are there; nobody sends the message."""
    case.hold.enter_context(case.pipeline.stopped("controller"))
    case.submit_and_wait()


def published(case: Case) -> None:
    """The broker has the message; nobody takes it."""
    case.hold.enter_context(case.pipeline.stopped("jobs"))
    case.submit_and_wait()
    wait_for("the message", case.is_message_published)


def begun(case: Case) -> None:
    """The job has claimed the version; the store gives it no bytes."""
    with ExitStack() as jobs:
        published(case.held_by(jobs))
        case.hold.enter_context(case.pipeline.stopped("object store"))
    wait_for("validation to begin", lambda: case.has_status("validating"))


def fetched(case: Case) -> None:
    """The bytes are on disk; the validator has not begun."""
    case.hold.enter_context(case.pipeline.shut_gate())
    case.submit_and_wait()
    wait_for("the validator", case.pipeline.gate.has_somebody_waiting)


def verdict(case: Case) -> None:
    """The validator has spoken; its verdict waits to be recorded."""
    with ExitStack() as gate:
        fetched(case.held_by(gate))
        locked = case.pipeline.locked(VERSION_ROW, name=case.files.name)
        is_waited_for = case.hold.enter_context(locked)
    wait_for("the verdict to wait", is_waited_for)


def recorded(case: Case) -> None:
    """The version is ready; the broker has not been told that the job is done."""
    with ExitStack() as record:
        verdict(case.held_by(record))
        case.hold.enter_context(case.pipeline.stopped("valkey"))
    wait_for("the record", lambda: case.has_status("ready"))


def completing(case: Case) -> None:
    """The job has claimed a resumable upload; the store gives it no bytes."""
    with ExitStack() as jobs:
        jobs.enter_context(case.pipeline.stopped("jobs"))
        case.upload_in_parts()
        case.hold.enter_context(case.pipeline.stopped("object store"))
    wait_for("completion to begin", case.is_completion_begun)


def registering(case: Case) -> None:
    """A resumable upload's bytes lie under their digest, and wait to become a version."""
    is_waited_for = case.hold.enter_context(case.pipeline.locked(NEW_ADAPTERS))
    case.upload_in_parts()
    wait_for("the version to wait", is_waited_for)


def fetching(case: Case) -> None:
    """An import has a part of the bytes; its source sends no more."""
    source = case.clients.enter_context(serving_source(case.files))
    case.hold.callback(source.go_on.set)
    with case.pipeline.client() as client:
        wanted = {"adapter": case.files.name, "source": {"kind": "https", "url": source.url}}
        answer = client.post("/api/v1/imports", json=wanted)
        assert answer.status_code == 202, answer.text
    assert source.arrived.wait(60), "nobody fetches"


def imported(case: Case) -> None:
    """An import has all bytes, and waits to become a version."""
    with ExitStack() as source:
        fetching(case.held_by(source))
        is_waited_for = case.hold.enter_context(case.pipeline.locked(NEW_ADAPTERS))
    wait_for("the version to wait", is_waited_for)


STAGES: dict[str, Hold] = {
    "received": received,
    "stored": stored,
    "committed": committed,
    "published": published,
    "begun": begun,
    "fetched": fetched,
    "verdict": verdict,
    "recorded": recorded,
    "completing": completing,
    "registering": registering,
    "fetching": fetching,
    "imported": imported,
}
SAMPLE = [
    ("received", "object store"),
    ("stored", "postgres"),
    ("committed", "controller"),
    ("published", "valkey"),
    ("begun", "object store"),
    ("fetched", "jobs"),
    ("verdict", "postgres"),
    ("recorded", "jobs"),
    ("completing", "object store"),
    ("registering", "jobs"),
    ("fetching", "jobs"),
    ("imported", "controller"),
]
CASES = [(stage, kind) for stage in STAGES for kind in PROCESSES] if SOAK else SAMPLE


@pytest.mark.parametrize(("stage", "kind"), CASES)
def test_a_kill_loses_no_upload_and_makes_no_second_version(
    pipeline: Pipeline, stage: str, kind: str
) -> None:
    pipeline.platform.wait_until_ready(120)
    files = Files(f"{stage}-{kind.replace(' ', '-')}")
    with ExitStack() as clients:
        with ExitStack() as hold:
            case = Case(pipeline, files, hold, clients)
            STAGES[stage](case)
            pipeline.kill(kind)
        pipeline.platform.wait_until_ready(120)
        finish(case)
    assert [one["number"] for one in case.versions()] == [1]
    wait_for("every message to be sent", case.is_message_published)
    uploads = pipeline.rows(
        "SELECT u.status, u.version, r.id AS reservation FROM uploads u"
        " LEFT JOIN storage_reservations r ON r.id = u.id WHERE adapter_name = %(name)s",
        name=files.name,
    )
    registered = {"status": "completed", "version": 1, "reservation": None}
    assert all(one == registered for one in uploads)
    imports = pipeline.rows(
        "SELECT i.status, i.version, i.sealed_source, r.id AS reservation FROM imports i"
        " LEFT JOIN storage_reservations r ON r.id = i.id WHERE adapter_name = %(name)s",
        name=files.name,
    )
    assert all(one == registered | {"sealed_source": None} for one in imports)


def finish(case: Case) -> None:
    """Wait for the adapter to be ready; in the sample, waits in between are cut short."""
    began = time.monotonic()
    is_cut_short = SOAK

    def is_ready() -> bool:
        nonlocal is_cut_short
        if case.has_status("ready"):
            return True
        if not is_cut_short and time.monotonic() - began > PATIENCE_SECONDS:
            case.bring_deadlines_forward()
            is_cut_short = True
        return False

    wait_for(f"{case.files.name} to be ready", is_ready, DEADLINE_SECONDS, case.explain)
