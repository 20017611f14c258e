"""A gateway that is told to end: no new calls, an end for every stream, and no bill forgotten."""

import time
from threading import Thread

import pytest

from tests.api.raw_calls import ENDLESS
from tests.api.running import running_gateway
from tests.api.stages import Stage
from tests.api.waiting import eventually

GRACE_SECONDS = 15
LEASE_SECONDS = 2.0


def test_it_is_not_ready_and_refuses_calls_while_its_streams_end(stage: Stage) -> None:
    stage = stage.changed(shutdown_notice_seconds=3)
    with stage.running() as (_, gateway), gateway.client(stage.customer.key) as client:
        streaming = stage.stream(gateway, max_tokens=150)
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
    [row] = stage.ledger
    assert (row.outcome, row.output_tokens) == ("completed", 150)


def test_what_it_cannot_write_since_postgres_is_away_another_one_writes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loraplex.api.server.DRAIN_SECONDS", 1.0)
    stage = stage.changed(reservation_lease_seconds=LEASE_SECONDS)
    with stage.running_cut_off() as (way, ending):
        short = stage.stream(ending, max_tokens=40)
        long = stage.stream(ending, n=2)
        way.cut()
        began = time.monotonic()
        ending.stop()
        assert time.monotonic() - began < GRACE_SECONDS
        assert short.events()[-1] == "[DONE]"
        assert long.events()[-1]["error"]["code"] == "shutting_down"
        assert stage.ledger == []
        assert stage.reservations == 2
        with running_gateway(stage.settings):
            eventually("their bills to be written", lambda: not stage.reservations, 30)
    rows = sorted(stage.ledger, key=lambda row: row.output_tokens)
    assert [row.settled_by for row in rows] == ["recovery", "recovery"]
    assert (rows[0].outcome, rows[0].output_tokens) == ("completed", 40)
    assert (rows[1].outcome, rows[1].error_code) == ("failed", "gateway_lost")
    assert rows[1].output_tokens > 40
    assert all(row.prompt_tokens > 0 for row in rows)


def test_a_bill_given_up_while_postgres_is_away_is_written_by_the_workers_counts(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loraplex.api.settlement.GIVE_UP_SECONDS", 0.5)
    stage = stage.changed(reservation_lease_seconds=LEASE_SECONDS)
    with stage.running_cut_off() as (way, gateway), gateway.client() as client:
        streaming = stage.stream(gateway, max_tokens=40)
        way.cut()
        assert streaming.events()[-1] == "[DONE]"

        def is_left() -> bool:
            return "loraplex_settlements_left_total 1.0" in client.get("/metrics").text

        eventually("it to give up", is_left, 30)
        assert stage.ledger == []
        way.mend()
        [row] = eventually("the bill", lambda: stage.ledger, 30)
    assert (row.settled_by, row.outcome, row.output_tokens) == ("recovery", "completed", 40)
    assert stage.reservations == 0
