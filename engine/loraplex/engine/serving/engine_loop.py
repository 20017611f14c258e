"""The engine thread: takes commands between steps, steps, and hands each gateway its outputs."""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import DomainError, EngineFailure, WorkerLost
from loraplex.engine.protocol.generation import (
    FinalCounts,
    FinishReason,
    GenerationRequest,
    RequestFailure,
    RequestOutput,
)
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.engine.protocol.messages import Recounted, StepOutputs, WorkerMessage
from loraplex.engine.protocol.tracing import NO_TRACING, Tracing
from loraplex.engine.serving.commands import (
    Add,
    CancelRequest,
    Command,
    EndAll,
    Expect,
    Forget,
    GatewayIdentity,
    Inbox,
    Pin,
    Reconcile,
    Tell,
)
from loraplex.engine.serving.final_counts import KeptCounts
from loraplex.engine.serving.interface import Engine
from loraplex.engine.serving.progress import Progress
from loraplex.engine.serving.traces import RequestTraces

log = logging.getLogger(__name__)

IDLE_SECONDS = 0.5
"""The longest the thread sleeps without looking whether it should end."""

FAILED_STEPS_LIMIT = 3
"""Steps that may fail in a row before the engine counts as broken and the process ends."""

Send = Callable[[GatewayIdentity, WorkerMessage], None]


class EngineBroken(Exception):
    """The engine fails every step: only a new process can help."""


@dataclass(slots=True)
class InFlight:
    """A request of this worker: who waits for it, and how much it was told of."""

    gateway: GatewayIdentity
    attempt: int
    prompt_tokens: int
    cached_tokens: int = 0
    output_tokens: int = 0
    is_billed: bool = False
    """Its gateway has cancelled it and written its bill, before it came to an end."""

    def counts(self, request_id: str, finish_reason: FinishReason) -> FinalCounts:
        return FinalCounts(
            request_id=request_id,
            attempt=self.attempt,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.output_tokens,
            finish_reason=finish_reason,
        )


class EngineLoop:
    """Owns the engine and knows which gateway waits for which request. One thread only."""

    def __init__(
        self,
        engine: Engine,
        inbox: Inbox,
        progress: Progress,
        send: Send,
        incarnation: str,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._engine = engine
        self._inbox = inbox
        self._progress = progress
        self._send = send
        self._incarnation = incarnation
        self._traces = RequestTraces(tracing)
        self._requests: dict[str, InFlight] = {}
        self._ended = KeptCounts()
        self._outputs: defaultdict[GatewayIdentity, list[RequestOutput]] = defaultdict(list)
        self._failed_steps = 0
        self._pinned: set[tuple[TenantNamespace, Digest]] = set()

    def run_once(self) -> None:
        """Wait a moment for work and do it. Raises EngineBroken when steps keep failing."""
        has_work = self._engine.wait_for_work(IDLE_SECONDS)
        self._progress.begin()
        commands = self._inbox.take()
        if not has_work and not commands:
            self._progress.rest()
            return
        for command in commands:
            self._obey(command)
        self._step()
        self._flush()
        self._progress.finish(self._engine.load(), len(self._requests))

    def _step(self) -> None:
        try:
            outputs = self._engine.step()
        except Exception as error:
            self._failed_steps += 1
            log.exception("a step failed; its requests end")
            self._end_all(EngineFailure(f"A step of the engine failed: {type(error).__name__}."))
            if self._failed_steps >= FAILED_STEPS_LIMIT:
                self._flush()
                raise EngineBroken(f"{self._failed_steps} steps failed in a row") from error
            return
        for output in outputs:
            self._deliver(output)

    def _deliver(self, output: RequestOutput) -> None:
        request = self._requests.get(output.request_id)
        if request is None:  # it has ended already, for a reason of our own
            return
        self._failed_steps = 0
        request.output_tokens = output.output_tokens
        request.cached_tokens = max(request.cached_tokens, output.cached_tokens)
        if output.finish_reason is not None:
            self._end(output.request_id, output.finish_reason)
        self._traces.see(output)
        self._outputs[request.gateway].append(output)

    def _end(self, request_id: str, finish_reason: FinishReason) -> InFlight:
        request = self._requests.pop(request_id)
        if not request.is_billed:
            self._ended.keep(request.counts(request_id, finish_reason))
        return request

    def _forget(self, request_ids: Sequence[str]) -> None:
        self._ended.acknowledge(request_ids)
        for request_id in request_ids:
            if running := self._requests.get(request_id):
                running.is_billed = True

    def _obey(self, command: Command) -> None:
        match command:
            case Add(gateway, request):
                self._add(gateway, request)
            case CancelRequest(gateway, request_id):
                if self._is_of(gateway, request_id):
                    self._engine.cancel(request_id)
            case Reconcile(gateway, request_ids):
                self._reconcile(gateway, request_ids)
            case Forget(request_ids):
                self._forget(request_ids)
            case Tell(gateway, question, request_ids):
                self._tell(gateway, question, request_ids)
            case Pin(adapters):
                self._pin(adapters)
            case Expect(adapters):
                self._expect(adapters)
            case EndAll():
                self._end_all(WorkerLost("The worker is shutting down."))

    def _is_of(self, gateway: GatewayIdentity, request_id: str) -> bool:
        request = self._requests.get(request_id)
        return request is not None and request.gateway == gateway

    def _add(self, gateway: GatewayIdentity, request: GenerationRequest) -> None:
        request_id = request.request_id
        if request_id in self._requests:
            # A failure would carry the same name and so end the first one at its gateway.
            log.warning(
                "a request was sent twice; the second is dropped",
                extra={"request_id": request_id},
            )
            return
        self._requests[request_id] = InFlight(
            gateway, request.attempt, len(request.prompt_token_ids)
        )
        self._traces.begin(request)
        try:
            self._engine.add(request)
        except DomainError as error:
            self._fail(request_id, error)
        except Exception as error:
            log.exception("a request could not be added", extra={"request_id": request_id})
            self._engine.cancel(request_id)
            message = f"The engine could not take the request: {type(error).__name__}."
            self._fail(request_id, EngineFailure(message))

    def _tell(self, gateway: GatewayIdentity, question: int, request_ids: Sequence[str]) -> None:
        running = [one for one in request_ids if one in self._requests]
        ended = self._ended.find(request_ids)
        self._send(gateway, Recounted(self._incarnation, question, ended, running))

    def _pin(self, adapters: Sequence[AdapterRef]) -> None:
        wanted = {(one.namespace, one.spec.digest): one for one in adapters}
        for key in self._pinned - wanted.keys():
            self._engine.unpin(key)
        self._pinned &= wanted.keys()
        for key, adapter in wanted.items():
            if key in self._pinned:
                continue
            try:
                self._engine.pin(adapter)
            except DomainError as error:
                log.warning("adapter %s cannot be pinned: %s", adapter.spec.digest, error.message)
            else:
                self._pinned.add(key)

    def _expect(self, adapters: Sequence[AdapterRef]) -> None:
        for adapter in adapters:
            try:
                self._engine.foretell(adapter)
            except DomainError as error:
                log.warning("adapter %s was foretold: %s", adapter.spec.digest, error.message)

    def _reconcile(self, gateway: GatewayIdentity, wanted: frozenset[str]) -> None:
        for request_id, request in self._requests.items():
            if request.gateway == gateway and request_id not in wanted:
                self._engine.cancel(request_id)
        for request_id in wanted - self._requests.keys():
            error = WorkerLost("The worker does not know the request any more.")
            self._outputs[gateway].append(_failed(request_id, 0, error))

    def _end_all(self, error: DomainError) -> None:
        for request_id in list(self._requests):
            self._engine.cancel(request_id)
            self._fail(request_id, error)

    def _fail(self, request_id: str, error: DomainError) -> None:
        request = self._end(request_id, FinishReason.ERROR)
        output = _failed(request_id, request.output_tokens, error)
        self._traces.see(output)
        self._outputs[request.gateway].append(output)

    def _flush(self) -> None:
        for gateway, outputs in self._outputs.items():
            self._send(gateway, StepOutputs(self._incarnation, self._progress.step, outputs))
        self._outputs.clear()


def _failed(request_id: str, output_tokens: int, error: DomainError) -> RequestOutput:
    return RequestOutput(
        request_id=request_id,
        token_ids=[],
        output_tokens=output_tokens,
        finish_reason=FinishReason.ERROR,
        failure=RequestFailure.of(error),
    )
