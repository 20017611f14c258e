"""What ended requests used is told to whoever asks, until it is acknowledged."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.protocol.generation import FinalCounts, FinishReason
from loraplex.engine.protocol.messages import Recounted, StepOutputs
from loraplex.engine.serving.final_counts import KeptCounts
from loraplex.engine.serving.identity import CurvePair
from loraplex.engine.serving.server import WorkerServer
from tests.engine.worker.echo_engine import MAX_TOKENS, POISON, EchoEngine
from tests.engine.worker.wire import WireGateway, a_request


def counts(request_id: str, output_tokens: int = 1) -> FinalCounts:
    return FinalCounts(
        request_id=request_id,
        attempt=0,
        prompt_tokens=3,
        cached_tokens=0,
        output_tokens=output_tokens,
        finish_reason=FinishReason.LENGTH,
    )


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


NAMES = st.sampled_from([f"r{number}" for number in range(6)])


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("keep"), NAMES),
            st.tuples(st.just("acknowledge"), NAMES),
            st.tuples(st.just("wait"), st.integers(1, 8)),
        )
    )
)
def test_the_newest_few_that_are_young_and_not_acknowledged_are_kept(
    steps: list[tuple[str, str | int]],
) -> None:
    clock = Clock()
    kept = KeptCounts(kept_seconds=10, kept_requests=4, clock=clock)
    model: dict[str, float] = {}
    for what, argument in steps:
        if isinstance(argument, int):
            clock.now += argument
        elif what == "keep":
            kept.keep(counts(argument))
            model.pop(argument, None)
            model[argument] = clock.now
        else:
            kept.acknowledge([argument])
            model.pop(argument, None)
        model = {name: at for name, at in model.items() if at >= clock.now - 10}
        model = dict(list(model.items())[-4:])
        found = kept.find([f"r{number}" for number in range(6)])
        assert {one.request_id for one in found} == set(model)
        assert len(kept) == len(model)


def test_counts_of_a_finished_request_stay_until_they_are_acknowledged(
    gateway: WireGateway,
) -> None:
    gateway.submit(a_request("r1", [5, 6, 7], max_tokens=4))
    gateway.outputs_until_end("r1")
    assert gateway.recount("r1", "unheard-of").ended == [counts("r1", output_tokens=4)]
    gateway.acknowledge("r1")
    assert gateway.recount("r1").ended == []


@pytest.mark.parametrize("prompt", [[POISON], [1] * (MAX_TOKENS + 1)], ids=["failed", "refused"])
def test_counts_of_a_request_that_failed_are_kept_too(
    gateway: WireGateway, prompt: list[int]
) -> None:
    gateway.submit(a_request("r1", prompt))
    gateway.outputs_until_end("r1")
    [kept] = gateway.recount("r1").ended
    assert (kept.finish_reason, kept.output_tokens) == (FinishReason.ERROR, 0)


def test_another_gateway_learns_what_a_silent_ones_requests_used(
    worker: WorkerServer, engine: EchoEngine, gateway_keys: CurvePair
) -> None:
    engine.step_seconds = 0.005
    with WireGateway(worker.registration, gateway_keys, "dead") as dead:
        dead.hello()
        dead.submit(a_request("r2", max_tokens=2))
        dead.outputs_until_end("r2")
        dead.submit(a_request("r1", max_tokens=4000))
        dead.receive(StepOutputs)
    with WireGateway(worker.registration, gateway_keys, "heir") as heir:
        heir.hello()
        first = heir.recount("r1", "r2")
        assert [one.request_id for one in first.ended] == ["r2"]
        assert first.running == ["r1"]
        answer = until_ended(heir, "r1")
    [kept] = answer.ended
    assert kept.finish_reason is FinishReason.CANCELLED
    assert 0 < kept.output_tokens < 4000


def test_a_bill_that_is_written_before_the_request_has_ended_leaves_nothing(
    engine: EchoEngine, gateway: WireGateway
) -> None:
    engine.allowed.clear()
    gateway.submit(a_request("r1", max_tokens=4000))
    gateway.acknowledge("r1")
    gateway.cancel("r1")
    engine.allowed.set()
    gateway.outputs_until_end("r1")
    assert gateway.recount("r1").ended == []


def until_ended(gateway: WireGateway, request_id: str) -> Recounted:
    """The answer once the request does not run any more."""
    deadline = time.monotonic() + 30
    while (answer := gateway.recount(request_id)).running:
        assert time.monotonic() < deadline, "the silent gateway's request runs on"
        gateway.keep_alive()
        time.sleep(0.05)
    return answer
