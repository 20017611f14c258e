"""The transport thread: owns the ROUTER socket and knows which gateways are still there.

It decodes what gateways send, drops what is meant for another incarnation, and passes commands on;
it never waits for the engine.
"""

import logging
import time
from collections.abc import Callable
from threading import Event

import msgspec
import zmq

from loraplex.engine.protocol.errors import WorkerLost
from loraplex.engine.protocol.generation import FinishReason, RequestFailure, RequestOutput
from loraplex.engine.protocol.messages import (
    PROTOCOL_VERSION,
    Acknowledge,
    Cancel,
    Foretell,
    GatewayMessage,
    Hello,
    KeepAlive,
    Recount,
    StepOutputs,
    Submit,
    Welcome,
    WorkerMessage,
)
from loraplex.engine.protocol.workers import WorkerLimits
from loraplex.engine.serving.authentication import protect
from loraplex.engine.serving.commands import (
    Add,
    CancelRequest,
    Expect,
    Forget,
    GatewayIdentity,
    Inbox,
    Reconcile,
    Tell,
)
from loraplex.engine.serving.identity import WorkerIdentity

log = logging.getLogger(__name__)

GATEWAY_SILENCE_SECONDS = 10.0
"""A gateway not heard of for this long is gone: five times what a worker is given, because its
requests lose their work, while a gateway that waits in vain loses only time."""

POLL_MILLISECONDS = 200


class Outlet:
    """The engine thread's end of the queue to the transport thread."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self._socket = context.socket(zmq.PUSH)
        self._socket.set_hwm(0)
        self._socket.linger = 0
        self._socket.connect(address)
        self._encoder = msgspec.msgpack.Encoder()

    def send(self, gateway: GatewayIdentity, message: WorkerMessage) -> None:
        self._socket.send_multipart([gateway, self._encoder.encode(message)])

    def close(self) -> None:
        self._socket.close()


class Transport:
    """The worker's side of all gateways' connections."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        identity: WorkerIdentity,
        limits: WorkerLimits,
        inbox: Inbox,
        *,
        host: str,
        gateway_silence_seconds: float = GATEWAY_SILENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.outlet_address = f"inproc://outputs-{identity.incarnation}"
        self.is_accepting = True
        self._identity = identity
        self._limits = limits
        self._inbox = inbox
        self._silence_seconds = gateway_silence_seconds
        self._clock = clock
        self._heard_at: dict[GatewayIdentity, float] = {}
        self._decoder = msgspec.msgpack.Decoder(GatewayMessage)
        self._encoder = msgspec.msgpack.Encoder()
        self._outputs = context.socket(zmq.PULL)
        self._outputs.set_hwm(0)
        self._outputs.bind(self.outlet_address)
        self._router = context.socket(zmq.ROUTER)
        protect(self._router, identity.curve)
        # A gateway that reconnects before its old connection is seen to be dead takes its name.
        self._router.router_handover = True
        # A ROUTER drops what does not fit its queue, and a dropped output is a torn stream. What
        # bounds the queue is that a gateway which does not read falls silent.
        self._router.set_hwm(0)
        self._router.linger = 500
        self.endpoint = bind(self._router, host)

    def run(self, stopping: Event) -> None:
        """Carry messages until told to stop, then send what is still queued, and close."""
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._outputs, zmq.POLLIN)
        try:
            while not stopping.is_set():
                poller.poll(POLL_MILLISECONDS)
                self._forward_outputs()
                self._read_gateways()
                self._forget_silent_gateways()
            self._forward_outputs()
        finally:
            self._outputs.close()
            self._router.close()

    def _forward_outputs(self) -> None:
        while True:
            try:
                frames = self._outputs.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._router.send_multipart(frames)

    def _read_gateways(self) -> None:
        while True:
            try:
                gateway, *frames = self._router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                message = self._decoder.decode(b"".join(frames))
            except msgspec.DecodeError as error:
                log.warning("a gateway's message could not be read: %s", error)
                continue
            if message.incarnation == self._identity.incarnation:
                self._receive(gateway, message)

    def _receive(self, gateway: GatewayIdentity, message: GatewayMessage) -> None:
        self._heard_at[gateway] = self._clock()
        match message:
            case Hello():
                self._welcome(gateway)
            case Submit(request=request) if self.is_accepting:
                self._inbox.put(Add(gateway, request))
            case Submit(request=request):
                self._refuse(gateway, request.request_id)
            case Cancel(request_id=request_id):
                self._inbox.put(CancelRequest(gateway, request_id))
            case Foretell(adapters=adapters):
                self._inbox.put(Expect(adapters))
            case Acknowledge(request_ids=request_ids):
                self._inbox.put(Forget(request_ids))
            case Recount(question=question, request_ids=request_ids):
                self._inbox.put(Tell(gateway, question, request_ids))
            case KeepAlive(request_ids=request_ids):
                self._inbox.put(Reconcile(gateway, frozenset(request_ids)))

    def _welcome(self, gateway: GatewayIdentity) -> None:
        welcome = Welcome(
            protocol_version=PROTOCOL_VERSION,
            incarnation=self._identity.incarnation,
            base_digest=self._identity.base_digest,
            limits=self._limits,
        )
        self._router.send_multipart([gateway, self._encoder.encode(welcome)])

    def _refuse(self, gateway: GatewayIdentity, request_id: str) -> None:
        refused = RequestOutput(
            request_id=request_id,
            token_ids=[],
            output_tokens=0,
            finish_reason=FinishReason.ERROR,
            failure=RequestFailure.of(WorkerLost("The worker is shutting down.")),
        )
        outputs = StepOutputs(self._identity.incarnation, 0, [refused])
        self._router.send_multipart([gateway, self._encoder.encode(outputs)])

    def _forget_silent_gateways(self) -> None:
        deadline = self._clock() - self._silence_seconds
        for gateway in [one for one, heard_at in self._heard_at.items() if heard_at < deadline]:
            log.warning("gateway %r fell silent; its requests are cancelled", gateway)
            del self._heard_at[gateway]
            self._inbox.put(Reconcile(gateway, frozenset()))


def bind(socket: zmq.Socket[bytes], host: str) -> str:
    """Bind to a free port of `host`; returns the endpoint to connect to."""
    return f"tcp://{host}:{socket.bind_to_random_port(f'tcp://{host}')}"
