"""The engine thread's bookkeeping, whatever gateways say in whatever order."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from loraplex.engine.protocol.messages import StepOutputs, WorkerMessage
from loraplex.engine.serving.commands import Add, CancelRequest, EndAll, Inbox, Reconcile
from loraplex.engine.serving.engine_loop import EngineLoop
from loraplex.engine.serving.progress import Progress
from tests.engine.worker.echo_engine import MAX_TOKENS, POISON, EchoEngine
from tests.engine.worker.wire import a_request
from tests.soak import examples

GATEWAYS = st.sampled_from([b"g1", b"g2"])


class EngineLoopMachine(RuleBasedStateMachine):
    """The model: which gateway waits for which request, and what each has been told."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = EchoEngine()
        self.inbox = Inbox(self.engine.wake)
        self.loop = EngineLoop(
            self.engine, self.inbox, Progress(self.engine.load()), self.receive, "i1"
        )
        self.sent = 0
        self.waiting: dict[str, bytes] = {}
        self.ends: Counter[str] = Counter()

    def receive(self, gateway: bytes, step: WorkerMessage) -> None:
        assert isinstance(step, StepOutputs)
        for output in step.outputs:
            if output.request_id == "unknown":
                assert output.failure is not None
                continue
            assert self.waiting[output.request_id] == gateway, "another gateway's output"
            if output.finish_reason is not None:
                self.ends[output.request_id] += 1
                del self.waiting[output.request_id]

    @rule(gateway=GATEWAYS, max_tokens=st.sampled_from([1, 2, 5, MAX_TOKENS]))
    def submit(self, gateway: bytes, max_tokens: int) -> None:
        self.send(gateway, [1, 2], max_tokens)

    @rule(gateway=GATEWAYS)
    def submit_poison(self, gateway: bytes) -> None:
        self.send(gateway, [POISON], 2)
        self.run_once()
        self.send(gateway, [1], 1)  # a good step between, or the engine would count as broken
        self.run_once()

    def send(self, gateway: bytes, prompt: list[int], max_tokens: int) -> None:
        self.sent += 1
        request = a_request(f"r{self.sent}", prompt, max_tokens)
        self.waiting[request.request_id] = gateway
        self.inbox.put(Add(gateway, request))

    def run_once(self) -> None:
        self.engine.wake()  # a thread would sleep while there is nothing to do
        self.loop.run_once()

    @rule(gateway=GATEWAYS, number=st.integers(1, 20))
    def cancel(self, gateway: bytes, number: int) -> None:
        self.inbox.put(CancelRequest(gateway, f"r{number}"))

    @rule(gateway=GATEWAYS, keep=st.booleans())
    def reconcile(self, gateway: bytes, keep: bool) -> None:
        self.run_once()  # as on the wire, what has ended is no longer named
        names = {name for name, owner in self.waiting.items() if owner == gateway and keep}
        self.inbox.put(Reconcile(gateway, frozenset(names | {"unknown"})))

    @rule()
    def shut_down(self) -> None:
        self.inbox.put(EndAll())
        self.run_once()
        assert self.waiting == {}

    @rule()
    def step(self) -> None:
        self.run_once()

    @invariant()
    def no_request_ends_twice(self) -> None:
        assert all(count == 1 for count in self.ends.values())

    def teardown(self) -> None:
        for gateway in (b"g1", b"g2"):
            self.inbox.put(Reconcile(gateway, frozenset()))
        for _ in range(3):
            self.run_once()
        assert self.engine.running == {}
        assert self.waiting == {}


TestEngineLoop = EngineLoopMachine.TestCase
TestEngineLoop.settings = settings(max_examples=examples(30, 1000), deadline=None)
