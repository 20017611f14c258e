"""A worker around an EchoEngine in this process, and a gateway's sockets to it."""

from collections.abc import Iterator

import pytest

from loraplex.engine.serving.identity import CurvePair
from loraplex.engine.serving.server import WorkerServer
from tests.engine.worker.echo_engine import EchoEngine
from tests.engine.worker.echo_worker import echo_identity
from tests.engine.worker.wire import WireGateway


@pytest.fixture
def engine() -> EchoEngine:
    return EchoEngine()


@pytest.fixture
def gateway_keys() -> CurvePair:
    return CurvePair.new()


@pytest.fixture
def worker(engine: EchoEngine, gateway_keys: CurvePair) -> Iterator[WorkerServer]:
    server = WorkerServer(
        engine,
        echo_identity("w1"),
        gateway_public_key=gateway_keys.public.decode(),
        gateway_silence_seconds=1.0,
    ).start()
    yield server
    engine.allowed.set()
    assert server.stop(drain_seconds=0)


@pytest.fixture
def gateway(worker: WorkerServer, gateway_keys: CurvePair) -> Iterator[WireGateway]:
    with WireGateway(worker.registration, gateway_keys) as gateway:
        gateway.hello()
        yield gateway
