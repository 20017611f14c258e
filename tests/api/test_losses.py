"""Workers that die or fail, and gateways that stop: every client is told, none waits for ever."""

import pytest

from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.settings import Settings
from tests.api.conftest import CallFactory, Tenant, running_worker
from tests.api.raw_calls import BASE, ENDLESS, ledger
from tests.api.running import running_gateway
from tests.api.waiting import eventually
from tests.engine.worker.echo_engine import POISON, EchoEngine

STREAM = ENDLESS | {"stream": True}


@pytest.fixture
def slow_engine() -> EchoEngine:
    return EchoEngine(step_seconds=0.01)


def test_a_worker_that_dies_mid_stream_ends_the_stream_with_an_error_event(
    gateway_settings: Settings,
    registered_base: None,
    table: ModuleTable,
    slow_engine: EchoEngine,
    customer: Tenant,
    call: CallFactory,
) -> None:
    with (
        running_worker(gateway_settings, table, slow_engine) as worker,
        running_gateway(gateway_settings) as gateway,
    ):
        streaming = call(gateway, customer.key, STREAM)
        assert streaming.answer().status == 200
        worker.stop(drain_seconds=0)
        error = streaming.events()[-1]["error"]
    assert (error["code"], error["type"]) == ("worker_lost", "server_error")
    assert [row.outcome for row in ledger(gateway_settings, customer)] == ["failed"]


def test_without_a_worker_the_answer_is_503(
    gateway_settings: Settings, registered_base: None, customer: Tenant, call: CallFactory
) -> None:
    with running_gateway(gateway_settings) as gateway:
        refused = call(gateway, customer.key, STREAM)
        assert refused.answer().status == 503
        assert int(refused.answer().headers["Retry-After"]) >= 1
        assert refused.json()["error"]["code"] == "no_worker_available"


def test_a_step_that_fails_before_the_first_token_has_a_status_of_its_own(
    gateway_settings: Settings,
    registered_base: None,
    table: ModuleTable,
    slow_engine: EchoEngine,
    customer: Tenant,
    call: CallFactory,
) -> None:
    with (
        running_worker(gateway_settings, table, slow_engine),
        running_gateway(gateway_settings) as gateway,
    ):
        body = {"model": BASE, "prompt": [POISON, 5], "max_tokens": 4, "stream": True}
        refused = call(gateway, customer.key, body)
        assert refused.answer().status == 503
        assert refused.json()["error"]["code"] == "engine_failure"


def test_a_gateway_that_stops_lets_streams_end(
    gateway_settings: Settings,
    registered_base: None,
    table: ModuleTable,
    slow_engine: EchoEngine,
    customer: Tenant,
    call: CallFactory,
) -> None:
    with (
        running_worker(gateway_settings, table, slow_engine),
        running_gateway(gateway_settings) as gateway,
    ):
        streaming = call(gateway, customer.key, STREAM | {"max_tokens": 100})
        assert streaming.answer().status == 200
        gateway.stop()
        assert streaming.events()[-1] == "[DONE]"
    assert [row.outcome for row in ledger(gateway_settings, customer)] == ["completed"]


def test_a_gateway_that_stops_ends_long_calls_with_an_error(
    gateway_settings: Settings,
    registered_base: None,
    table: ModuleTable,
    slow_engine: EchoEngine,
    customer: Tenant,
    call: CallFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loraplex.api.server.DRAIN_SECONDS", 0.3)
    with (
        running_worker(gateway_settings, table, slow_engine),
        running_gateway(gateway_settings) as gateway,
    ):
        streaming = call(gateway, customer.key, STREAM)
        whole = call(gateway, customer.key, ENDLESS)
        eventually("both to run", lambda: len(slow_engine.running) == 2)
        gateway.stop(seconds=10)
        assert streaming.events()[-1]["error"]["code"] == "shutting_down"
        assert whole.answer().status == 503
        assert whole.json()["error"]["code"] == "shutting_down"
        eventually("the engine to be rid of them", lambda: not slow_engine.running)
    assert [row.outcome for row in ledger(gateway_settings, customer)] == ["failed", "failed"]
