"""What one process says is what the other hears; what is no message is refused, never guessed."""

import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.protocol import messages
from loraplex.engine.protocol.errors import ENGINE_ERRORS, DomainError, EngineFailure, Kind
from loraplex.engine.protocol.generation import RequestFailure
from loraplex.engine.protocol.messages import EventMessage, GatewayMessage, KeepAlive, WorkerMessage
from loraplex.engine.protocol.workers import WorkerRegistration
from tests.engine.protocol.strategies import (
    EVENT_MESSAGES,
    FAILURES,
    GATEWAY_MESSAGES,
    REGISTRATIONS,
    WORKER_MESSAGES,
)

GATEWAY = msgspec.msgpack.Decoder(GatewayMessage)
WORKER = msgspec.msgpack.Decoder(WorkerMessage)
EVENT = msgspec.msgpack.Decoder(EventMessage)


@given(GATEWAY_MESSAGES)
def test_a_gateways_message_arrives_as_it_was_sent(message: GatewayMessage) -> None:
    assert GATEWAY.decode(msgspec.msgpack.encode(message)) == message


@given(WORKER_MESSAGES)
def test_a_workers_message_arrives_as_it_was_sent(message: WorkerMessage) -> None:
    assert WORKER.decode(msgspec.msgpack.encode(message)) == message


@given(EVENT_MESSAGES)
def test_an_event_arrives_as_it_was_sent(message: EventMessage) -> None:
    assert EVENT.decode(msgspec.msgpack.encode(message)) == message


@given(REGISTRATIONS)
def test_a_registration_travels_as_json(registration: WorkerRegistration) -> None:
    sent = msgspec.json.encode(registration)

    assert msgspec.json.decode(sent, type=WorkerRegistration) == registration


@pytest.mark.parametrize("union", [GatewayMessage, WorkerMessage, EventMessage])
def test_every_message_names_the_incarnation_it_is_meant_for(union: object) -> None:
    for message in typing.get_args(union) or (union,):
        fields = [field.name for field in msgspec.structs.fields(message)]
        assert "incarnation" in fields, message


@given(GATEWAY_MESSAGES)
def test_a_message_sent_the_wrong_way_is_refused(message: GatewayMessage) -> None:
    with pytest.raises(msgspec.ValidationError):
        WORKER.decode(msgspec.msgpack.encode(message))


@given(st.binary(max_size=200))
def test_noise_is_refused_and_nothing_else(noise: bytes) -> None:
    for decoder in (GATEWAY, WORKER, EVENT):
        with pytest.raises(msgspec.DecodeError):
            decoder.decode(noise)


@given(GATEWAY_MESSAGES, st.data())
def test_a_message_cut_short_is_refused(message: GatewayMessage, data: st.DataObject) -> None:
    sent = msgspec.msgpack.encode(message)
    length = data.draw(st.integers(0, len(sent) - 1))

    with pytest.raises(msgspec.DecodeError):
        GATEWAY.decode(sent[:length])


def test_a_newer_peers_unknown_field_is_ignored() -> None:
    sent = msgspec.msgpack.encode(
        {"type": "KeepAlive", "incarnation": "i", "request_ids": [], "of tomorrow": 1}
    )

    assert GATEWAY.decode(sent) == KeepAlive(incarnation="i", request_ids=[])


@pytest.mark.parametrize("error_class", ENGINE_ERRORS.values(), ids=lambda error: error.__name__)
def test_a_refusal_is_the_same_error_on_the_other_side(error_class: type[DomainError]) -> None:
    error = error_class("too long", field="prompt", rule="≤ 5", value=7, retry_after_seconds=3)

    sent = msgspec.msgpack.encode(RequestFailure.of(error))
    arrived = msgspec.msgpack.decode(sent, type=RequestFailure).to_error()

    assert type(arrived) is error_class
    assert vars(arrived) == vars(error)


@given(FAILURES.filter(lambda failure: failure.code not in ENGINE_ERRORS))
def test_a_failure_of_an_unknown_code_is_an_engine_failure(failure: RequestFailure) -> None:
    assert type(failure.to_error()) is EngineFailure


def test_every_error_that_can_travel_is_found_by_its_code() -> None:
    assert all(error.code == code for code, error in ENGINE_ERRORS.items())
    assert all(error.kind in Kind for error in ENGINE_ERRORS.values())


def test_silence_is_longer_than_several_heartbeats() -> None:
    assert messages.SILENCE_SECONDS >= 3 * messages.HEARTBEAT_SECONDS
