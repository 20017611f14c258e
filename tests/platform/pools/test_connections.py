"""One connection to one worker in this process, whose engine and wire the test holds in hand."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest
import zmq.asyncio

from loraplex.engine.protocol.errors import WorkerLost
from loraplex.engine.protocol.generation import RequestOutput
from loraplex.engine.protocol.workers import WorkerRegistration
from loraplex.engine.serving.server import WorkerServer
from loraplex.platform.pools.connections import WorkerConnection
from loraplex.platform.pools.sockets import GatewayIdentity
from loraplex.platform.pools.views import WorkerState
from loraplex.platform.secrets import SecretKeys
from tests.engine.worker.echo_engine import MAX_TOKENS, EchoEngine
from tests.engine.worker.echo_worker import echo_identity
from tests.engine.worker.wire import a_request
from tests.platform.pools.conftest import until

SECRETS = SecretKeys(["k" * 40])
GATEWAY = GatewayIdentity("g1", SECRETS.gateway_curve())
STEP_DEADLINE_SECONDS = 1.0
LONG = MAX_TOKENS - 10


@pytest.fixture
def engine() -> EchoEngine:
    return EchoEngine(step_seconds=0.01)


@pytest.fixture
def worker(engine: EchoEngine) -> Iterator[WorkerServer]:
    server = WorkerServer(
        engine, echo_identity("w1"), gateway_public_key=GATEWAY.curve.public.decode()
    ).start()
    yield server
    engine.allowed.set()
    assert server.stop(drain_seconds=0)


class Gateway:
    """Opens connections, looks after them as a fleet does, and closes them."""

    def __init__(self) -> None:
        self.context = zmq.asyncio.Context()
        self.connections: list[WorkerConnection] = []
        self.ticking = asyncio.create_task(self._tick())

    def connect(
        self, registration: WorkerRegistration, identity: GatewayIdentity = GATEWAY
    ) -> WorkerConnection:
        connection = WorkerConnection(
            self.context,
            registration,
            identity,
            on_news=lambda: None,
            step_deadline_seconds=STEP_DEADLINE_SECONDS,
        )
        self.connections.append(connection)
        return connection

    async def connect_live(self, registration: WorkerRegistration) -> WorkerConnection:
        connection = self.connect(registration)
        await until(lambda: connection.life.is_routable)
        return connection

    async def _tick(self) -> None:
        while True:
            for connection in self.connections:
                connection.tick()
            await asyncio.sleep(0.05)


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    gateway = Gateway()
    yield gateway
    gateway.ticking.cancel()
    await asyncio.gather(gateway.ticking, return_exceptions=True)
    for connection in gateway.connections:
        connection.close("is no longer wanted")
    await asyncio.to_thread(gateway.context.term)


async def test_a_worker_stuck_in_a_step_is_lost_although_its_heart_beats(
    gateway: Gateway, worker: WorkerServer, engine: EchoEngine
) -> None:
    connection = await gateway.connect_live(worker.registration)
    stream = connection.generate(a_request("r1", max_tokens=LONG))
    await anext(stream)
    engine.allowed.clear()
    with pytest.raises(WorkerLost, match="stuck"):
        async for _ in stream:
            pass
    assert connection.life.is_heard
    assert connection.life.state is WorkerState.LOST
    engine.allowed.set()
    await until(lambda: connection.life.is_routable)


async def test_an_output_that_is_missing_a_part_is_never_passed_on(
    gateway: Gateway, worker: WorkerServer, engine: EchoEngine
) -> None:
    connection = await gateway.connect_live(worker.registration)
    stream = connection.generate(a_request("r1", max_tokens=LONG))
    await anext(stream)
    engine.running["r1"].output_tokens += 1
    with pytest.raises(WorkerLost, match="lost a part"):
        async for _ in stream:
            pass
    await until(lambda: not engine.running)


async def test_a_request_that_the_worker_does_not_know_ends(
    gateway: Gateway, worker: WorkerServer
) -> None:
    connection = await gateway.connect_live(worker.registration)
    # What a Submit or a last output that is lost on the way leaves behind.
    stream = connection._streams["lost"] = asyncio.Queue()
    async with asyncio.timeout(5):
        output = await stream.get()
    assert isinstance(output, RequestOutput)
    assert output.failure is not None
    assert isinstance(output.failure.to_error(), WorkerLost)


async def test_a_successor_on_the_same_port_is_not_taken_for_its_predecessor(
    gateway: Gateway, worker: WorkerServer
) -> None:
    stale = msgspec.structs.replace(worker.registration, incarnation="an-older-one")
    connection = gateway.connect(stale)
    fresh = gateway.connect(worker.registration, GatewayIdentity("g2", GATEWAY.curve))
    await until(lambda: fresh.life.is_routable)
    assert not connection.life.is_heard
    assert connection.life.state is WorkerState.CONNECTING


async def test_a_gateway_with_another_key_gets_nowhere(
    gateway: Gateway, worker: WorkerServer
) -> None:
    other = SecretKeys(["another" * 8]).gateway_curve()
    intruder = gateway.connect(worker.registration, GatewayIdentity("g2", other))
    honest = await gateway.connect_live(worker.registration)
    await until(lambda: honest.view().load is not None)
    assert not intruder.life.is_heard


async def test_a_worker_with_another_key_is_not_believed(
    gateway: Gateway, worker: WorkerServer
) -> None:
    forged = msgspec.structs.replace(
        worker.registration, curve_public_key=echo_identity("w1").curve.public.decode()
    )
    deceived = gateway.connect(forged, GatewayIdentity("g2", GATEWAY.curve))
    honest = await gateway.connect_live(worker.registration)
    await until(lambda: honest.view().load is not None)
    assert not deceived.life.is_heard


async def test_a_closed_connection_takes_no_more_requests(
    gateway: Gateway, worker: WorkerServer
) -> None:
    connection = await gateway.connect_live(worker.registration)
    connection.close("is gone")
    connection.close("is gone")
    with pytest.raises(WorkerLost):
        await anext(connection.generate(a_request("r1")))
