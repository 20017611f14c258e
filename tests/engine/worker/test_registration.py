"""A worker's registration against a real HTTP server that comes, goes and refuses."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Event

import pytest

from loraplex.engine.serving.identity import CurvePair
from loraplex.engine.serving.registration import Controller, Registrar, Superseded
from loraplex.engine.serving.server import WorkerServer
from tests.engine.worker.control_plane import ControlPlane


@pytest.fixture
def plane() -> ControlPlane:
    return ControlPlane()


@contextmanager
def registering(worker: WorkerServer, plane: ControlPlane) -> Iterator[None]:
    controller = Controller(f"http://127.0.0.1:{plane.port}", "token", worker.registration)
    stopping = Event()
    thread = threading.Thread(target=lambda: Registrar(controller).run(stopping))
    thread.start()
    yield
    stopping.set()
    thread.join()


def test_a_worker_registers_renews_and_deregisters(
    worker: WorkerServer, plane: ControlPlane
) -> None:
    with plane.listening():
        with registering(worker, plane):
            method, path, body = plane.next_call()
            assert (method, path) == ("POST", "/internal/workers")
            assert body["worker_id"] == "w1"
            assert body["requests_endpoint"].startswith("tcp://127.0.0.1:")
            method, path, body = plane.next_call()
            assert (method, path) == ("PUT", "/internal/workers/w1/lease")
            assert body == {
                "incarnation": worker.registration.incarnation,
                "wanted_revision": None,
            }
        _, path, _ = plane.next_method("DELETE")
        assert path == f"/internal/workers/w1?incarnation={worker.registration.incarnation}"


def test_a_worker_forgets_the_tenants_that_it_is_told_of(
    worker: WorkerServer, plane: ControlPlane
) -> None:
    told: SimpleQueue[list[str]] = SimpleQueue()
    plane.lease = {"lease_seconds": 0.1, "gone": ["a1", "b2"]}
    with plane.listening():
        controller = Controller(f"http://127.0.0.1:{plane.port}", "t", worker.registration)
        stopping = Event()
        registrar = Registrar(controller, on_gone=lambda gone: told.put(list(gone)))
        thread = threading.Thread(target=lambda: registrar.run(stopping))
        thread.start()
        assert [told.get(timeout=5), told.get(timeout=5)] == [["a1", "b2"]] * 2
        stopping.set()
        thread.join()


def test_a_controller_that_restarts_is_found_again(
    worker: WorkerServer, plane: ControlPlane
) -> None:
    with plane.listening():
        first = plane.port
    with registering(worker, plane):
        with plane.listening():
            assert plane.port == first
            plane.next_method("POST")
            plane.next_method("PUT")
        with plane.listening():
            plane.answer = lambda method: 404 if method == "PUT" else 200
            plane.next_method("POST")  # its lease was forgotten meanwhile


def test_a_database_that_is_away_is_waited_for(worker: WorkerServer, plane: ControlPlane) -> None:
    plane.answer = lambda method: 503
    with plane.listening(), registering(worker, plane):
        plane.next_method("POST")
        plane.next_method("POST")
        plane.answer = lambda method: 200
        plane.next_method("PUT")


def test_a_worker_whose_place_is_taken_ends(worker: WorkerServer, plane: ControlPlane) -> None:
    plane.answer = lambda method: 409 if method == "PUT" else 200
    with plane.listening():
        controller = Controller(f"http://127.0.0.1:{plane.port}", "t", worker.registration)
        worker.announce(controller)
        assert isinstance(worker.ended.get(timeout=5), Superseded)


def test_only_http_is_spoken(worker: WorkerServer) -> None:
    with pytest.raises(ValueError, match="file:"):
        Controller("file:///etc/passwd", "token", worker.registration)


def test_secrets_are_not_shown(gateway_keys: CurvePair) -> None:
    assert gateway_keys.secret.decode() not in repr(gateway_keys)
