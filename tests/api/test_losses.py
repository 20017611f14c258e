"""Workers that die or fail, and gateways that stop: every client is told, none waits for ever."""

import pytest

from tests.api.running import running_gateway
from tests.api.stages import Stage
from tests.api.waiting import eventually
from tests.engine.worker.echo_engine import POISON


def test_a_worker_that_dies_mid_stream_ends_the_stream_with_an_error_event(stage: Stage) -> None:
    with stage.running() as (worker, gateway):
        streaming = stage.stream(gateway)
        worker.stop(drain_seconds=0)
        error = streaming.events()[-1]["error"]
    assert (error["code"], error["type"]) == ("worker_lost", "server_error")
    assert stage.outcomes == ["failed"]


def test_without_a_worker_the_answer_is_503(stage: Stage) -> None:
    with running_gateway(stage.settings) as gateway:
        refused = stage.call(gateway, stream=True)
        assert refused.answer().status == 503
        assert int(refused.answer().headers["Retry-After"]) >= 1
        assert refused.json()["error"]["code"] == "no_worker_available"


def test_a_step_that_fails_before_the_first_token_has_a_status_of_its_own(stage: Stage) -> None:
    with stage.running() as (_, gateway):
        refused = stage.call(gateway, prompt=[POISON, 5], max_tokens=4, stream=True)
        assert refused.answer().status == 503
        assert refused.json()["error"]["code"] == "engine_failure"


def test_a_gateway_that_stops_lets_streams_end(stage: Stage) -> None:
    with stage.running() as (_, gateway):
        streaming = stage.stream(gateway, max_tokens=100)
        gateway.stop()
        assert streaming.events()[-1] == "[DONE]"
    assert stage.outcomes == ["completed"]


def test_a_gateway_that_stops_ends_long_calls_with_an_error(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loraplex.api.server.DRAIN_SECONDS", 0.3)
    with stage.running() as (_, gateway):
        streaming = stage.call(gateway, stream=True)
        whole = stage.call(gateway)
        eventually("both to run", lambda: len(stage.engine.running) == 2)
        gateway.stop(seconds=10)
        assert streaming.events()[-1]["error"]["code"] == "shutting_down"
        assert whole.answer().status == 503
        assert whole.json()["error"]["code"] == "shutting_down"
        eventually("the engine to be rid of them", lambda: not stage.engine.running)
    assert stage.outcomes == ["failed", "failed"]
