"""One gateway's connection to one incarnation of one worker: what they say to each other."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any

import zmq.asyncio

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import DomainError, WorkerLost
from loraplex.engine.protocol.generation import FinishReason, GenerationRequest, RequestOutput
from loraplex.engine.protocol.messages import (
    PROTOCOL_VERSION,
    Acknowledge,
    Cancel,
    Foretell,
    GatewayMessage,
    Hello,
    KeepAlive,
    Recount,
    Recounted,
    StepOutputs,
    Submit,
    Welcome,
)
from loraplex.engine.protocol.workers import AdaptersInUse, WorkerRegistration
from loraplex.platform.pools.liveness import Liveness
from loraplex.platform.pools.recounting import Questions
from loraplex.platform.pools.sockets import GatewayIdentity, WireEvent, WorkerSockets
from loraplex.platform.pools.views import WorkerState, WorkerView
from loraplex.platform.routing.policy import Candidate

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 1.0
STEP_DEADLINE_SECONDS = 60.0
"""A step that runs longer counts as stuck. A long prefill chunk on a busy CPU takes seconds."""

RECOUNT_SECONDS = 5.0
"""How long an answer about past requests may take: it comes between two steps."""


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
        self.life = Liveness(step_deadline_seconds, clock)
        self._on_news = on_news
        self._clock = clock
        self._kept_alive_at = 0.0
        self._own_requests_then = 0
        self._streams: dict[str, asyncio.Queue[RequestOutput | DomainError]] = {}
        self._questions = Questions()
        self._sockets = WorkerSockets(context, registration, gateway)
        self._tasks = [
            self._start(self._watch_wire()),
            self._start(self._read_replies()),
            self._start(self._read_heartbeats()),
        ]

    # What the fleet asks

    def serves(self, base_name: str) -> bool:
        return self.registration.base_name == base_name

    def candidate(self) -> Candidate:
        """What routing should know of the worker now."""
        limits, beat = self.registration.limits, self.life.heartbeat
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
        beat = self.life.heartbeat
        return WorkerView(
            id=self.registration.worker_id,
            pool=self.registration.pool,
            role=self.registration.role,
            base_name=self.registration.base_name,
            state=self.life.state,
            is_accepting=self.life.is_accepting,
            incarnation=self.registration.incarnation,
            process_id=self.registration.process_id,
            limits=self.registration.limits,
            load=beat.load if beat else None,
            in_flight=len(self._streams),
            adapters=beat.adapters if beat else AdaptersInUse(),
            process=beat.process if beat else None,
        )

    # Requests

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[RequestOutput, None]:
        """Submit a request and yield its outputs, the last with a finish_reason.

        Raises WorkerLost when the worker dies, falls silent or drops the request, and whatever
        the worker refused it with. Closing the generator earlier cancels the request.
        """
        if self.life.is_closed:
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

    def foretell(self, adapters: Sequence[AdapterRef]) -> None:
        """Say that requests for these adapters may come."""
        self._send(Foretell(self.registration.incarnation, list(adapters)))

    def acknowledge(self, request_ids: Sequence[str]) -> None:
        """Say that these requests are billed, so that their counts need not be kept."""
        self._send(Acknowledge(self.registration.incarnation, list(request_ids)))

    async def recount(self, request_ids: Sequence[str]) -> Recounted | None:
        """What the worker knows of these requests, of any gateway; None unless it says in time."""
        if self.life.state is not WorkerState.LIVE:
            return None
        number, answer = self._questions.ask()
        self._send(Recount(self.registration.incarnation, number, list(request_ids)))
        try:
            async with asyncio.timeout(RECOUNT_SECONDS):
                return await answer
        except TimeoutError:
            return None

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
        if self._streams and self.life.state is not WorkerState.LIVE:
            reason = "is stuck in one step" if self.life.is_heard else "has fallen silent"
            self._fail_all(reason)
        if self.life.is_heard and now - self._kept_alive_at >= KEEP_ALIVE_SECONDS:
            self._kept_alive_at = now
            self._keep_alive()

    def close(self, reason: str) -> None:
        """End every request with WorkerLost and disconnect; idempotent."""
        if self.life.is_closed:
            return
        self._fail_all(reason)
        if self.life.is_welcome:
            self._keep_alive()  # names no request: whatever still runs is cancelled
        self.life.is_closed = True
        for task in self._tasks:
            task.cancel()
        self._sockets.close()

    def _keep_alive(self) -> None:
        incarnation = self.registration.incarnation
        if self.life.is_welcome:
            self._send(KeepAlive(incarnation, list(self._streams)))
        else:
            self._greet()

    # Messages

    async def _watch_wire(self) -> None:
        """A closed connection is a lost worker, seen sooner than its silence."""
        while True:
            match await self._sockets.next_wire_event():
                case WireEvent.CONNECTED:
                    self._greet()
                case WireEvent.DISCONNECTED:
                    self.life.disconnect()
                    self._fail_all("closed its connection")
                case WireEvent.REFUSED:
                    log.error("worker %s refuses this gateway's key", self.registration.worker_id)

    async def _read_replies(self) -> None:
        while True:
            match await self._sockets.next_reply():
                case Welcome() as welcome:
                    self.life.hear()
                    self._be_welcome(welcome)
                case Recounted() as recounted:
                    self.life.hear()
                    self._questions.answer(recounted)
                case StepOutputs(outputs=outputs):
                    self.life.hear()
                    for output in outputs:
                        if stream := self._streams.get(output.request_id):
                            stream.put_nowait(output)

    async def _read_heartbeats(self) -> None:
        while True:
            self.life.heartbeat = await self._sockets.next_heartbeat()
            self._own_requests_then = len(self._streams)
            self.life.hear()
            self._on_news()

    def _greet(self) -> None:
        self._send(Hello(PROTOCOL_VERSION, self._gateway.gateway_id, self.registration.incarnation))

    def _be_welcome(self, welcome: Welcome) -> None:
        if welcome.protocol_version != PROTOCOL_VERSION:
            log.error("worker %s speaks another protocol", self.registration.worker_id)
        elif welcome.base_digest != self.registration.base_digest:
            log.error("worker %s serves another base than it said", self.registration.worker_id)
        else:
            self.life.welcome()
            self._on_news()

    def _send(self, message: GatewayMessage) -> None:
        if not self.life.is_closed:
            self._sockets.send(message)

    def _fail_all(self, reason: str) -> None:
        if self._streams:
            log.warning(
                "worker %s %s; %d requests end",
                self.registration.worker_id,
                reason,
                len(self._streams),
            )
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.put_nowait(self._lost(reason))

    @staticmethod
    def _lost(reason: str) -> WorkerLost:
        return WorkerLost(f"The worker that ran the request {reason}.")

    # Tasks

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        """A reader that failed would leave its requests waiting for ever."""
        if not task.cancelled() and (error := task.exception()):
            log.critical("a connection to a worker failed", exc_info=error)
            self.close("could not be understood")
