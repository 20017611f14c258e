"""One gateway's connection to one incarnation of one worker: requests, heartbeats, liveness."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from loraplex.engine.protocol.errors import DomainError, WorkerLost
from loraplex.engine.protocol.messages import (
    PROTOCOL_VERSION,
    SILENCE_SECONDS,
    Cancel,
    EventMessage,
    FinishReason,
    GatewayMessage,
    GenerationRequest,
    Heartbeat,
    Hello,
    KeepAlive,
    RequestOutput,
    StepOutputs,
    Submit,
    Welcome,
    WorkerMessage,
    WorkerRegistration,
)
from loraplex.platform.pools.views import WorkerState, WorkerView
from loraplex.platform.routing.policy import Candidate
from loraplex.platform.secrets import CurveKeys

Message = TypeVar("Message", Welcome | StepOutputs, Heartbeat)

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 1.0
STEP_DEADLINE_SECONDS = 60.0
"""A step that runs longer counts as stuck. A long prefill chunk on a busy CPU takes seconds."""

RECONNECT_MILLISECONDS = 1000
GOODBYE_MILLISECONDS = 200
"""How long a closing socket may take to send its last cancellations."""

MONITORED = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_AUTH


@dataclass(frozen=True)
class GatewayIdentity:
    """Who this gateway is to all workers. `gateway_id` is unique among running gateways."""

    gateway_id: str
    curve: CurveKeys


class WorkerConnection:
    """Belongs to one event loop. `on_news` is called when the worker may have become usable."""

    def __init__(
        self,
        context: zmq.asyncio.Context,
        registration: WorkerRegistration,
        gateway: GatewayIdentity,
        *,
        on_news: Callable[[], None],
        step_deadline_seconds: float = STEP_DEADLINE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registration = registration
        self._gateway = gateway
        self._on_news = on_news
        self._step_deadline_seconds = step_deadline_seconds
        self._clock = clock
        self._heard_at = -SILENCE_SECONDS
        self._kept_alive_at = 0.0
        self._is_welcome = False
        self._was_live = False
        self._is_closed = False
        self._heartbeat: Heartbeat | None = None
        self._own_requests_then = 0
        self._streams: dict[str, asyncio.Queue[RequestOutput | DomainError]] = {}
        self._encoder = msgspec.msgpack.Encoder()
        self._replies = msgspec.msgpack.Decoder(WorkerMessage)
        self._events = msgspec.msgpack.Decoder(EventMessage)
        self._dealer = self._connect(context, zmq.DEALER, registration.requests_endpoint)
        self._monitor = self._dealer.get_monitor_socket(MONITORED)
        self._subscriber = self._connect(context, zmq.SUB, registration.events_endpoint)
        self._tasks = [
            self._start(self._watch_connection()),
            self._start(self._read_replies()),
            self._start(self._read_events()),
        ]

    # What the fleet asks

    @property
    def state(self) -> WorkerState:
        if self._is_welcome and self.is_heard and not self._is_stuck:
            return WorkerState.LIVE
        return WorkerState.LOST if self._was_live else WorkerState.CONNECTING

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def is_heard(self) -> bool:
        """Whether the worker has said anything lately."""
        return not self._is_closed and self._clock() - self._heard_at < SILENCE_SECONDS

    @property
    def is_routable(self) -> bool:
        return self.state is WorkerState.LIVE and self._is_accepting

    @property
    def _is_accepting(self) -> bool:
        return self._heartbeat is None or self._heartbeat.accepting

    @property
    def _is_stuck(self) -> bool:
        beat = self._heartbeat
        return beat is not None and beat.step_running_seconds > self._step_deadline_seconds

    def candidate(self) -> Candidate:
        """What routing should know of the worker now."""
        limits, beat = self.registration.limits, self._heartbeat
        return Candidate(
            worker_id=self.registration.worker_id,
            own_requests=len(self._streams),
            reported_requests=(
                beat.load.running_requests + beat.load.waiting_requests if beat else 0
            ),
            own_requests_then=self._own_requests_then,
            max_request_tokens=min(limits.max_model_tokens, limits.pool_tokens),
        )

    def view(self) -> WorkerView:
        return WorkerView(
            id=self.registration.worker_id,
            pool=self.registration.pool,
            role=self.registration.role,
            base_name=self.registration.base_name,
            state=self.state,
            is_accepting=self._is_accepting,
            incarnation=self.registration.incarnation,
            process_id=self.registration.process_id,
            limits=self.registration.limits,
            load=self._heartbeat.load if self._heartbeat else None,
            in_flight=len(self._streams),
        )

    # Requests

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[RequestOutput, None]:
        """Submit a request and yield its outputs, the last with a finish_reason.

        Raises WorkerLost when the worker dies, falls silent or drops the request, and whatever
        the worker refused it with. Closing the generator earlier cancels the request.
        """
        if self._is_closed:
            raise self._lost("is gone")
        request_id = request.request_id
        assert request_id not in self._streams, f"request {request_id} is running already"
        stream: asyncio.Queue[RequestOutput | DomainError] = asyncio.Queue()
        self._streams[request_id] = stream
        is_over = False
        received_tokens = 0
        try:
            self._send(Submit(self.registration.incarnation, request))
            while not is_over:
                received = await stream.get()
                is_over = isinstance(received, DomainError) or received.finish_reason is not None
                output = self._accept(received, received_tokens)
                received_tokens = output.output_tokens
                yield output
        finally:
            self._streams.pop(request_id, None)
            if not is_over:
                self._send(Cancel(self.registration.incarnation, request_id))

    def _accept(self, output: RequestOutput | DomainError, received_tokens: int) -> RequestOutput:
        if isinstance(output, DomainError):
            raise output
        if output.failure is not None:
            raise output.failure.to_error()
        if output.finish_reason is FinishReason.CANCELLED:
            raise self._lost("ended the request, which it takes for abandoned")
        if output.output_tokens != received_tokens + len(output.token_ids):
            raise self._lost("lost a part of the output on its way")
        return output

    # The fleet's clock

    def tick(self) -> None:
        """End the requests of a worker that is lost; say that this gateway lives. Often called."""
        now = self._clock()
        if self.state is WorkerState.LIVE:
            self._was_live = True
        elif self._streams:
            reason = "is stuck in one step" if self.is_heard else "has fallen silent"
            self._fail_all(reason)
        if self.is_heard and now - self._kept_alive_at >= KEEP_ALIVE_SECONDS:
            self._kept_alive_at = now
            self._keep_alive()

    def forgive(self, seconds: float) -> None:
        """Take back silence in which this gateway itself did not listen."""
        self._heard_at += seconds

    def close(self, reason: str) -> None:
        """End every request with WorkerLost and disconnect; idempotent."""
        if self._is_closed:
            return
        self._fail_all(reason)
        if self._is_welcome:
            self._send(KeepAlive(self.registration.incarnation, []))  # cancels whatever still runs
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        self._dealer.disable_monitor()
        self._monitor.close(0)  # or the context waits for it for ever
        self._dealer.close(GOODBYE_MILLISECONDS)
        self._subscriber.close(0)

    def _keep_alive(self) -> None:
        incarnation = self.registration.incarnation
        if self._is_welcome:
            self._send(KeepAlive(incarnation, list(self._streams)))
        else:
            self._greet()

    # Messages

    async def _watch_connection(self) -> None:
        """A closed connection is a lost worker, seen sooner than its silence."""
        while True:
            event = parse_monitor_message(await self._monitor.recv_multipart())["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._greet()
            elif event == zmq.EVENT_DISCONNECTED:
                self._is_welcome = False
                self._fail_all("closed its connection")
            else:
                log.error("worker %s refuses this gateway's key", self.registration.worker_id)

    async def _read_replies(self) -> None:
        while True:
            frame = await self._dealer.recv()
            message = self._decode(self._replies, frame)
            match message:
                case Welcome():
                    self._hear()
                    self._be_welcome(message)
                case StepOutputs(outputs=outputs):
                    self._hear()
                    for output in outputs:
                        if stream := self._streams.get(output.request_id):
                            stream.put_nowait(output)

    async def _read_events(self) -> None:
        while True:
            message = self._decode(self._events, await self._subscriber.recv())
            if message is not None:
                self._hear()
                self._heartbeat = message
                self._own_requests_then = len(self._streams)
                self._on_news()

    def _decode(self, decoder: msgspec.msgpack.Decoder[Message], frame: bytes) -> Message | None:
        """None for what cannot be read or comes from another incarnation."""
        try:
            message = decoder.decode(frame)
        except msgspec.DecodeError as error:
            log.warning("worker %s: unreadable message: %s", self.registration.worker_id, error)
            return None
        return message if message.incarnation == self.registration.incarnation else None

    def _hear(self) -> None:
        self._heard_at = self._clock()

    def _greet(self) -> None:
        self._send(Hello(PROTOCOL_VERSION, self._gateway.gateway_id, self.registration.incarnation))

    def _be_welcome(self, welcome: Welcome) -> None:
        if welcome.protocol_version != PROTOCOL_VERSION:
            log.error("worker %s speaks another protocol", self.registration.worker_id)
        elif welcome.base_digest != self.registration.base_digest:
            log.error("worker %s serves another base than it said", self.registration.worker_id)
        else:
            self._is_welcome = self._was_live = True
            self._on_news()

    def _send(self, message: GatewayMessage) -> None:
        # Without a high-water mark ZeroMQ takes it at once, so the future needs no waiting for.
        if not self._is_closed:
            self._dealer.send(self._encoder.encode(message))

    def _fail_all(self, reason: str) -> None:
        if self._streams:
            log.warning(
                "worker %s %s; %d requests end",
                self.registration.worker_id,
                reason,
                len(self._streams),
            )
        for stream in self._streams.values():
            stream.put_nowait(self._lost(reason))

    @staticmethod
    def _lost(reason: str) -> WorkerLost:
        return WorkerLost(f"The worker that ran the request {reason}.")

    # Sockets and tasks

    def _connect(
        self, context: zmq.asyncio.Context, kind: int, endpoint: str
    ) -> zmq.asyncio.Socket:
        socket = context.socket(kind)
        socket.curve_publickey = self._gateway.curve.public
        socket.curve_secretkey = self._gateway.curve.secret
        socket.curve_serverkey = self.registration.curve_public_key.encode()
        socket.reconnect_ivl_max = RECONNECT_MILLISECONDS
        socket.set_hwm(0)
        if kind == zmq.SUB:
            socket.subscribe(b"")
        else:
            socket.routing_id = self._gateway.gateway_id.encode()
        socket.connect(endpoint)
        return socket

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        """A reader that failed would leave its requests waiting for ever."""
        if not task.cancelled() and (error := task.exception()):
            log.critical("a connection to a worker failed", exc_info=error)
            self.close("could not be understood")
