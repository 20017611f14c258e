"""How calls end, well and otherwise, and that each is settled once."""

import pytest

from loraplex.platform.settings import Settings
from tests.api.conftest import CallFactory, Tenant, new_tenant
from tests.api.raw_calls import BASE, ENDLESS, ledger, reservations
from tests.api.running import RunningGateway
from tests.api.waiting import eventually
from tests.engine.worker.echo_engine import EchoEngine


def test_a_call_that_ends_well_is_settled_before_its_answer_ends(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant, call: CallFactory
) -> None:
    body = ENDLESS | {"max_tokens": 3}
    assert call(gateway, customer.key, body).json()["usage"]["completion_tokens"] == 3
    assert call(gateway, customer.key, body | {"stream": True}).events()[-1] == "[DONE]"
    rows = ledger(gateway_settings, customer)
    assert [row.outcome for row in rows] == ["completed", "completed"]
    assert [row.output_tokens for row in rows] == [3, 3]
    assert all(row.worker_id is not None for row in rows)
    assert all(row.prompt_tokens > 0 and row.model == BASE for row in rows)
    assert reservations(gateway_settings, customer) == 0


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "not streaming"])
def test_a_closed_socket_cancels_the_request_and_settles_it(
    stream: bool,
    gateway: RunningGateway,
    engine: EchoEngine,
    gateway_settings: Settings,
    customer: Tenant,
    call: CallFactory,
) -> None:
    running = call(gateway, customer.key, ENDLESS | {"stream": stream, "n": 2})
    eventually("both choices to run", lambda: len(engine.running) == 2)
    running.close()
    eventually("the engine to be rid of them", lambda: not engine.running, seconds=2)
    (row,) = eventually("the ledger row", lambda: ledger(gateway_settings, customer))
    assert row.outcome == "cancelled"
    assert 0 <= row.output_tokens < 8000
    assert reservations(gateway_settings, customer) == 0


def test_a_client_that_hangs_up_before_the_first_token_cancels_too(
    gateway: RunningGateway,
    engine: EchoEngine,
    gateway_settings: Settings,
    customer: Tenant,
    call: CallFactory,
) -> None:
    engine.allowed.clear()
    try:
        running = call(gateway, customer.key, ENDLESS | {"stream": True})
        eventually("the request to arrive", lambda: reservations(gateway_settings, customer) == 1)
        running.close()
        (row,) = eventually("the ledger row", lambda: ledger(gateway_settings, customer))
    finally:
        engine.allowed.set()
    assert (row.outcome, row.output_tokens, row.prompt_tokens) == ("cancelled", 0, 0)
    eventually("the engine to be rid of it", lambda: not engine.running)


def test_a_stop_string_cancels_what_the_engine_would_go_on_with(
    gateway: RunningGateway, engine: EchoEngine, customer: Tenant, call: CallFactory
) -> None:
    body = ENDLESS | {"prompt": "one two three", "stop": [" two"]}
    assert call(gateway, customer.key, body).json()["choices"][0]["text"] == "one"
    eventually("the engine to be rid of it", lambda: not engine.running, seconds=2)


def test_a_tenant_runs_only_so_many_requests_at_once(
    gateway: RunningGateway, engine: EchoEngine, gateway_settings: Settings, call: CallFactory
) -> None:
    small = new_tenant(gateway_settings, max_concurrent_requests=1)
    running = call(gateway, small.key, ENDLESS | {"stream": True})
    assert running.answer().status == 200
    refused = call(gateway, small.key, ENDLESS)
    assert refused.answer().status == 429
    assert int(refused.answer().headers["Retry-After"]) >= 1
    error = refused.json()["error"]
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "rate_limit_error")
    running.close()
    eventually("its place to be free", lambda: reservations(gateway_settings, small) == 0)
    for _ in range(3):  # one after another fits, without waiting
        assert call(gateway, small.key, ENDLESS | {"max_tokens": 1}).answer().status == 200
