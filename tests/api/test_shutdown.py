"""A gateway that is told to end: no new calls, an end for every stream, and no bill forgotten."""

import time
from threading import Thread

import pytest
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.settings import Settings
from tests.api.conftest import CallFactory, Tenant, running_worker
from tests.api.cut import cuttable_way
from tests.api.raw_calls import ENDLESS, ledger, reservations
from tests.api.running import running_gateway
from tests.api.waiting import eventually
from tests.engine.worker.echo_engine import EchoEngine

STREAM = ENDLESS | {"stream": True}
GRACE_SECONDS = 15
LEASE_SECONDS = 2.0


@pytest.fixture
def slow_engine() -> EchoEngine:
    return EchoEngine(step_seconds=0.01)


def test_it_is_not_ready_and_refuses_calls_while_its_streams_end(
    gateway_settings: Settings,
    registered_base: None,
    table: ModuleTable,
    slow_engine: EchoEngine,
    customer: Tenant,
    call: CallFactory,
) -> None:
    settings = gateway_settings.model_copy(update={"shutdown_notice_seconds": 3})
    with (
        running_worker(settings, table, slow_engine),
        running_gateway(settings) as gateway,
        gateway.client(customer.key) as client,
    ):
        streaming = call(gateway, customer.key, STREAM | {"max_tokens": 150})
        assert streaming.answer().status == 200
        ending = Thread(target=gateway.stop)
        ending.start()
        eventually("it to say so", lambda: client.get("/readyz").status_code == 503)
        assert client.get("/readyz").json()["parts"]["gateway"] == "shutting down"
        refused = client.post("/v1/completions", json=ENDLESS)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "shutting_down"
        assert int(refused.headers["Retry-After"]) >= 1
        assert streaming.events()[-1] == "[DONE]"
        ending.join()
    [row] = ledger(gateway_settings, customer)
    assert (row.outcome, row.output_tokens) == ("completed", 150)


def test_what_it_cannot_write_since_postgres_is_away_another_one_writes(
    gateway_settings: Settings,
    registered_base: None,
    table: ModuleTable,
    slow_engine: EchoEngine,
    customer: Tenant,
    call: CallFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loraplex.api.server.DRAIN_SECONDS", 1.0)
    settings = gateway_settings.model_copy(update={"reservation_lease_seconds": LEASE_SECONDS})
    assert settings.database_url is not None
    url = make_url(settings.database_url.get_secret_value())
    assert url.port is not None
    with running_worker(settings, table, slow_engine), cuttable_way(url.port) as way:
        through = url.set(port=way.port).render_as_string(hide_password=False)
        cut_off = settings.model_copy(update={"database_url": SecretStr(through)})
        with running_gateway(cut_off) as ending:
            short = call(ending, customer.key, STREAM | {"max_tokens": 40})
            long = call(ending, customer.key, STREAM | {"n": 2})
            assert (short.answer().status, long.answer().status) == (200, 200)
            way.cut()
            began = time.monotonic()
            ending.stop()
            assert time.monotonic() - began < GRACE_SECONDS
            assert short.events()[-1] == "[DONE]"
            assert long.events()[-1]["error"]["code"] == "shutting_down"
        assert ledger(settings, customer) == []
        assert reservations(settings, customer) == 2
        with running_gateway(settings):
            eventually(
                "their bills to be written", lambda: not reservations(settings, customer), 30
            )
    rows = sorted(ledger(settings, customer), key=lambda row: row.output_tokens)
    assert [row.settled_by for row in rows] == ["recovery", "recovery"]
    assert (rows[0].outcome, rows[0].output_tokens) == ("completed", 40)
    assert (rows[1].outcome, rows[1].error_code) == ("failed", "gateway_lost")
    assert rows[1].output_tokens > 40
    assert all(row.prompt_tokens > 0 for row in rows)


def test_a_bill_given_up_while_postgres_is_away_is_written_by_the_workers_counts(
    gateway_settings: Settings,
    registered_base: None,
    table: ModuleTable,
    slow_engine: EchoEngine,
    customer: Tenant,
    call: CallFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loraplex.api.settlement.GIVE_UP_SECONDS", 0.5)
    settings = gateway_settings.model_copy(update={"reservation_lease_seconds": LEASE_SECONDS})
    assert settings.database_url is not None
    url = make_url(settings.database_url.get_secret_value())
    assert url.port is not None
    with running_worker(settings, table, slow_engine), cuttable_way(url.port) as way:
        through = url.set(port=way.port).render_as_string(hide_password=False)
        cut_off = settings.model_copy(update={"database_url": SecretStr(through)})
        with running_gateway(cut_off) as gateway, gateway.client() as client:
            streaming = call(gateway, customer.key, STREAM | {"max_tokens": 40})
            assert streaming.answer().status == 200
            way.cut()
            assert streaming.events()[-1] == "[DONE]"

            def is_left() -> bool:
                return "loraplex_settlements_left_total 1.0" in client.get("/metrics").text

            eventually("it to give up", is_left, 30)
            assert ledger(settings, customer) == []
            way.mend()
            [row] = eventually("the bill", lambda: ledger(settings, customer), 30)
    assert (row.settled_by, row.outcome, row.output_tokens) == ("recovery", "completed", 40)
    assert reservations(settings, customer) == 0
