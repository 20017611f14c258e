"""A gateway's sockets to one incarnation of a worker: keys, frames and the state of the wire.

Knows messages and drops those of other incarnations; what they mean, it does not know.
"""

import logging
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

import msgspec
import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from loraplex.engine.protocol.messages import (
    EventMessage,
    GatewayMessage,
    Heartbeat,
    Recounted,
    StepOutputs,
    Welcome,
    WorkerMessage,
)
from loraplex.engine.protocol.workers import WorkerRegistration
from loraplex.platform.secrets import CurveKeys

log = logging.getLogger(__name__)

RECONNECT_MILLISECONDS = 1000
GOODBYE_MILLISECONDS = 200
"""How long a closing socket may take to send its last cancellations."""

Message = TypeVar("Message", Welcome | StepOutputs | Recounted, Heartbeat)


@dataclass(frozen=True)
class GatewayIdentity:
    """Who this gateway is to all workers. `gateway_id` is unique among running gateways."""

    gateway_id: str
    curve: CurveKeys


class WireEvent(Enum):
    """What became of the connection that carries the requests."""

    CONNECTED = auto()
    DISCONNECTED = auto()
    REFUSED = auto()
    """The worker does not accept this gateway's key."""


WIRE_EVENTS = {
    zmq.EVENT_HANDSHAKE_SUCCEEDED: WireEvent.CONNECTED,
    zmq.EVENT_DISCONNECTED: WireEvent.DISCONNECTED,
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: WireEvent.REFUSED,
}


class WorkerSockets:
    """Connects at once and again whenever the connection breaks, until closed."""

    def __init__(
        self,
        context: zmq.asyncio.Context,
        worker: WorkerRegistration,
        gateway: GatewayIdentity,
    ) -> None:
        self._worker = worker
        self._gateway = gateway
        self._encoder = msgspec.msgpack.Encoder()
        self._replies = msgspec.msgpack.Decoder(WorkerMessage)
        self._events = msgspec.msgpack.Decoder(EventMessage)
        self._dealer = self._open(context, zmq.DEALER)
        self._dealer.routing_id = gateway.gateway_id.encode()
        self._monitor = self._dealer.get_monitor_socket(sum(WIRE_EVENTS))
        self._subscriber = self._open(context, zmq.SUB)
        self._subscriber.subscribe(b"")
        self._dealer.connect(worker.requests_endpoint)
        self._subscriber.connect(worker.events_endpoint)

    def send(self, message: GatewayMessage) -> None:
        """Queue a message, which leaves as soon as there is a connection."""
        # Without a high-water mark ZeroMQ takes it at once, so the future needs no waiting for.
        self._dealer.send(self._encoder.encode(message))

    async def next_reply(self) -> WorkerMessage:
        while (reply := self._decode(self._replies, await self._dealer.recv())) is None:
            pass
        return reply

    async def next_heartbeat(self) -> Heartbeat:
        while (beat := self._decode(self._events, await self._subscriber.recv())) is None:
            pass
        return beat

    async def next_wire_event(self) -> WireEvent:
        event = parse_monitor_message(await self._monitor.recv_multipart())["event"]
        return WIRE_EVENTS[zmq.Event(event)]

    def close(self) -> None:
        """Disconnect, after a moment for what is queued; once."""
        self._dealer.disable_monitor()
        self._monitor.close(0)  # or the context waits for it for ever
        self._dealer.close(GOODBYE_MILLISECONDS)
        self._subscriber.close(0)

    def _open(self, context: zmq.asyncio.Context, kind: int) -> zmq.asyncio.Socket:
        socket = context.socket(kind)
        socket.curve_publickey = self._gateway.curve.public
        socket.curve_secretkey = self._gateway.curve.secret
        socket.curve_serverkey = self._worker.curve_public_key.encode()
        socket.reconnect_ivl_max = RECONNECT_MILLISECONDS
        socket.set_hwm(0)
        return socket

    def _decode(self, decoder: msgspec.msgpack.Decoder[Message], frame: bytes) -> Message | None:
        """None for what cannot be read or comes from another incarnation."""
        try:
            message = decoder.decode(frame)
        except msgspec.DecodeError as error:
            log.warning("worker %s: unreadable message: %s", self._worker.worker_id, error)
            return None
        return message if message.incarnation == self._worker.incarnation else None
