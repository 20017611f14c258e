"""What a worker answers over real sockets."""

import pytest

from loraplex.engine.protocol.adapter import AdapterRef, AdapterSpec
from loraplex.engine.protocol.errors import EngineFailure, PromptTooLong, WorkerLost
from loraplex.engine.protocol.generation import FinishReason, RequestOutput
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.messages import (
    PROTOCOL_VERSION,
    Cancel,
    Foretell,
    Hello,
    StepOutputs,
    Submit,
    Welcome,
)
from loraplex.engine.serving.identity import CurvePair
from loraplex.engine.serving.server import WorkerServer
from tests.engine.worker.echo_engine import MAX_TOKENS, POISON, EchoEngine
from tests.engine.worker.echo_worker import echo_identity
from tests.engine.worker.wire import WireGateway, a_request


def tokens(outputs: list[RequestOutput]) -> list[int]:
    return [token for output in outputs for token in output.token_ids]


def test_a_greeting_is_answered_with_what_the_worker_is(
    worker: WorkerServer, gateway: WireGateway
) -> None:
    welcome = gateway.hello()
    assert welcome == Welcome(
        PROTOCOL_VERSION,
        worker.registration.incarnation,
        worker.registration.base_digest,
        worker.registration.limits,
    )


def test_outputs_come_until_the_request_is_over(gateway: WireGateway) -> None:
    gateway.submit(a_request("r1", [5, 6, 7], max_tokens=4))
    outputs = gateway.outputs_until_end("r1")["r1"]
    assert tokens(outputs) == [5, 6, 7, 5]
    assert outputs[-1].finish_reason is FinishReason.LENGTH


def test_one_step_is_one_message(engine: EchoEngine, gateway: WireGateway) -> None:
    engine.allowed.clear()
    for name in ("r1", "r2", "r3"):
        gateway.submit(a_request(name, max_tokens=9))
    gateway.heartbeat()
    engine.allowed.set()
    steps: list[StepOutputs] = []
    while not steps or len(steps[-1].outputs) < 3:
        steps.append(gateway.receive(StepOutputs))
    assert {output.request_id for output in steps[-1].outputs} == {"r1", "r2", "r3"}


def test_each_of_two_gateways_gets_its_own_outputs(
    worker: WorkerServer, gateway: WireGateway, gateway_keys: CurvePair
) -> None:
    with WireGateway(worker.registration, gateway_keys, "g2") as other:
        other.hello()
        gateway.submit(a_request("mine", [1], max_tokens=50))
        other.submit(a_request("theirs", [2], max_tokens=50))
        assert tokens(gateway.outputs_until_end("mine")["mine"]) == [1] * 50
        assert tokens(other.outputs_until_end("theirs")["theirs"]) == [2] * 50


def test_a_cancelled_request_ends_as_cancelled(gateway: WireGateway) -> None:
    gateway.submit(a_request("r1", max_tokens=4000))
    gateway.receive(StepOutputs)
    gateway.cancel("r1")
    gateway.cancel("r1")
    assert gateway.outputs_until_end("r1")["r1"][-1].finish_reason is FinishReason.CANCELLED


def test_nobody_cancels_another_gateways_request(
    worker: WorkerServer, gateway: WireGateway, gateway_keys: CurvePair
) -> None:
    with WireGateway(worker.registration, gateway_keys, "g2") as other:
        gateway.submit(a_request("mine", max_tokens=300))
        gateway.receive(StepOutputs)
        other.cancel("mine")
        other.keep_alive()
        assert gateway.outputs_until_end("mine")["mine"][-1].finish_reason is FinishReason.LENGTH


def test_a_request_that_the_gateway_no_longer_names_is_cancelled(gateway: WireGateway) -> None:
    gateway.submit(a_request("kept", max_tokens=1000))
    gateway.submit(a_request("dropped", max_tokens=4000))
    gateway.keep_alive("kept")
    outputs = gateway.outputs_until_end("kept", "dropped")
    assert outputs["dropped"][-1].finish_reason is FinishReason.CANCELLED
    assert outputs["kept"][-1].finish_reason is FinishReason.LENGTH


def test_a_request_that_the_worker_does_not_know_is_failed(gateway: WireGateway) -> None:
    gateway.keep_alive("never-sent")
    failure = gateway.outputs_until_end("never-sent")["never-sent"][-1].failure
    assert failure is not None
    assert isinstance(failure.to_error(), WorkerLost)


def test_a_refusal_keeps_its_field_and_numbers(gateway: WireGateway) -> None:
    gateway.submit(a_request("r1", max_tokens=MAX_TOKENS))
    failure = gateway.outputs_until_end("r1")["r1"][-1].failure
    assert failure is not None
    error = failure.to_error()
    assert isinstance(error, PromptTooLong)
    assert (error.field, error.value) == ("messages", MAX_TOKENS + 3)


def test_a_failed_step_ends_its_requests_and_not_the_worker(gateway: WireGateway) -> None:
    gateway.submit(a_request("r1", [POISON], max_tokens=3))
    failure = gateway.outputs_until_end("r1")["r1"][-1].failure
    assert failure is not None
    assert isinstance(failure.to_error(), EngineFailure)
    gateway.submit(a_request("r2", [1], max_tokens=3))
    assert tokens(gateway.outputs_until_end("r2")["r2"]) == [1, 1, 1]


def test_messages_for_another_incarnation_are_dropped(
    engine: EchoEngine, gateway: WireGateway
) -> None:
    gateway.submit(a_request("r1", max_tokens=1000))
    gateway.send(Submit("another", a_request("stale")))
    gateway.send(Cancel("another", "r1"))
    outputs = gateway.outputs_until_end("r1")  # a stale request's output would be a KeyError
    assert outputs["r1"][-1].finish_reason is FinishReason.LENGTH
    assert engine.running == {}


@pytest.mark.parametrize("frame", [b"", b"\x00", b"\xc1", b"\x81\xa4type\xa5Hello", b"x" * 9999])
def test_an_unreadable_message_harms_nobody(gateway: WireGateway, frame: bytes) -> None:
    gateway.send_raw(frame)
    gateway.submit(a_request("r1", [4], max_tokens=2))
    assert tokens(gateway.outputs_until_end("r1")["r1"]) == [4, 4]


def test_a_silent_gateways_requests_are_cancelled(
    engine: EchoEngine, worker: WorkerServer, gateway: WireGateway, gateway_keys: CurvePair
) -> None:
    engine.step_seconds = 0.01
    with WireGateway(worker.registration, gateway_keys, "g2") as other:
        gateway.submit(a_request("abandoned", max_tokens=MAX_TOKENS - 3))
        other.submit(a_request("kept", max_tokens=MAX_TOKENS - 3))
        gateway.receive(StepOutputs)
        other.receive(StepOutputs)
        while "abandoned" in engine.running:
            other.keep_alive("kept")
            other.heartbeat()
        assert list(engine.running) == ["kept"]
    outputs = gateway.outputs_until_end("abandoned")["abandoned"]
    assert outputs[-1].finish_reason is FinishReason.CANCELLED


def test_heartbeats_go_on_during_a_long_step(engine: EchoEngine, gateway: WireGateway) -> None:
    engine.allowed.clear()
    gateway.submit(a_request("r1"))
    beats = [gateway.heartbeat() for _ in range(4)]
    assert beats[-1].step == beats[-2].step
    assert beats[-1].step_running_seconds > beats[-2].step_running_seconds > 0


def test_another_key_gets_no_answer(worker: WorkerServer, gateway: WireGateway) -> None:
    with WireGateway(worker.registration, CurvePair.new(), "intruder") as intruder:
        intruder.send(Hello(PROTOCOL_VERSION, "intruder", worker.registration.incarnation))
        gateway.heartbeat()
        gateway.heartbeat()  # the worker is alive and answers others meanwhile
        assert intruder.is_refused(milliseconds=500)


def test_each_incarnation_has_keys_of_its_own(gateway_keys: CurvePair) -> None:
    first, second = echo_identity("w1"), echo_identity("w1")
    assert first.incarnation != second.incarnation
    assert first.curve.public != second.curve.public


def test_a_worker_that_is_stopped_says_so_and_ends_its_requests(
    engine: EchoEngine, gateway_keys: CurvePair
) -> None:
    server = WorkerServer(
        engine, echo_identity("w1"), gateway_public_key=gateway_keys.public.decode()
    ).start()
    with WireGateway(server.registration, gateway_keys) as gateway:
        gateway.hello()
        gateway.submit(a_request("r1", max_tokens=MAX_TOKENS - 3))
        gateway.receive(StepOutputs)
        assert server.stop(drain_seconds=0)
        failure = gateway.outputs_until_end("r1")["r1"][-1].failure
        assert failure is not None
        assert isinstance(failure.to_error(), WorkerLost)
        while gateway.heartbeat().accepting:
            pass


def test_an_engine_that_fails_every_step_ends_the_worker(
    worker: WorkerServer, gateway: WireGateway, engine: EchoEngine
) -> None:
    for number in range(3):
        gateway.submit(a_request(f"r{number}", [POISON]))
        gateway.outputs_until_end(f"r{number}")
    assert type(worker.ended.get(timeout=5)).__name__ == "EngineBroken"


def test_what_a_gateway_foretells_reaches_the_engine(
    engine: EchoEngine, worker: WorkerServer, gateway: WireGateway
) -> None:
    digest = worker.registration.base_digest
    ref = AdapterRef(AdapterSpec(digest, digest, digest, 1, ()), TenantNamespace("one"), "url")
    gateway.send(Foretell(worker.registration.incarnation, [ref]))
    gateway.submit(a_request("r1", [5], max_tokens=1))
    gateway.outputs_until_end("r1")
    assert engine.foretold == [ref]
