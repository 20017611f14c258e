"""A gateway reduced to its sockets, for tests of what a worker answers."""

import time
from types import TracebackType
from typing import Self, TypeVar

import msgspec
import zmq

from loraplex.engine.protocol.generation import GenerationRequest, RequestOutput
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.messages import (
    PROTOCOL_VERSION,
    Acknowledge,
    Cancel,
    EventMessage,
    GatewayMessage,
    Heartbeat,
    Hello,
    KeepAlive,
    Recount,
    Recounted,
    StepOutputs,
    Submit,
    Welcome,
    WorkerMessage,
)
from loraplex.engine.protocol.sampling import SamplingParams
from loraplex.engine.protocol.workers import WorkerRegistration
from loraplex.engine.serving.identity import CurvePair

ANSWER_MILLISECONDS = 5000
END_SECONDS = 60.0
Message = TypeVar("Message", Welcome, StepOutputs, Recounted)


def a_request(
    request_id: str, prompt: list[int] | None = None, max_tokens: int = 3
) -> GenerationRequest:
    return GenerationRequest(
        request_id=request_id,
        namespace=TenantNamespace("n"),
        prompt_token_ids=prompt or [1, 2, 3],
        sampling=SamplingParams(max_tokens=max_tokens),
    )


class WireGateway:
    def __init__(self, worker: WorkerRegistration, keys: CurvePair, name: str = "g1") -> None:
        self.incarnation = worker.incarnation
        self.name = name
        self._questions = 0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._dealer = self._connect(zmq.DEALER, worker, keys, worker.requests_endpoint)
        self._subscriber = self._connect(zmq.SUB, worker, keys, worker.events_endpoint)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._context.destroy(linger=0)

    def hello(self) -> Welcome:
        self.send(Hello(PROTOCOL_VERSION, self.name, self.incarnation))
        return self.receive(Welcome)

    def submit(self, request: GenerationRequest) -> None:
        self.send(Submit(self.incarnation, request))

    def cancel(self, request_id: str) -> None:
        self.send(Cancel(self.incarnation, request_id))

    def keep_alive(self, *request_ids: str) -> None:
        self.send(KeepAlive(self.incarnation, list(request_ids)))

    def acknowledge(self, *request_ids: str) -> None:
        self.send(Acknowledge(self.incarnation, list(request_ids)))

    def recount(self, *request_ids: str) -> Recounted:
        """What the worker says became of the requests; outputs that come meanwhile are dropped."""
        self._questions += 1
        self.send(Recount(self.incarnation, self._questions, list(request_ids)))
        while True:
            answer = msgspec.msgpack.decode(self._receive(self._dealer), type=WorkerMessage)
            if isinstance(answer, Recounted):
                assert answer.question == self._questions
                return answer

    def send(self, message: GatewayMessage) -> None:
        self._dealer.send(msgspec.msgpack.encode(message))

    def send_raw(self, frame: bytes) -> None:
        self._dealer.send(frame)

    def receive(self, kind: type[Message]) -> Message:
        message = msgspec.msgpack.decode(self._receive(self._dealer), type=WorkerMessage)
        assert isinstance(message, kind)
        return message

    def outputs_until_end(self, *request_ids: str) -> dict[str, list[RequestOutput]]:
        """All outputs until each of the requests has its last; says meanwhile that it waits."""
        outputs: dict[str, list[RequestOutput]] = {one: [] for one in request_ids}
        pending = set(request_ids)
        deadline, next_sign = time.monotonic() + END_SECONDS, time.monotonic() + 1
        while pending:
            assert time.monotonic() < deadline, f"{pending} did not end"
            if time.monotonic() > next_sign:
                self.keep_alive(*pending)
                next_sign += 1
            if not self._dealer.poll(100):
                continue
            for output in self.receive(StepOutputs).outputs:
                # What crossed with a sign of life is an echo of a request that has just ended.
                if output.request_id in pending or output.request_id not in outputs:
                    outputs[output.request_id].append(output)
                if output.finish_reason is not None:
                    pending.discard(output.request_id)
        return outputs

    def heartbeat(self) -> Heartbeat:
        return msgspec.msgpack.decode(self._receive(self._subscriber), type=EventMessage)

    def is_refused(self, milliseconds: int) -> bool:
        """Whether neither an answer nor a heartbeat came within the time."""
        return not self._dealer.poll(milliseconds) and not self._subscriber.poll(0)

    def _receive(self, socket: zmq.Socket[bytes]) -> bytes:
        assert socket.poll(ANSWER_MILLISECONDS), "the worker said nothing"
        return socket.recv()

    def _connect(
        self, kind: int, worker: WorkerRegistration, keys: CurvePair, endpoint: str
    ) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.curve_publickey = keys.public
        socket.curve_secretkey = keys.secret
        socket.curve_serverkey = worker.curve_public_key.encode()
        if kind == zmq.SUB:
            socket.subscribe(b"")
        else:
            socket.routing_id = self.name.encode()
        socket.connect(endpoint)
        return socket
