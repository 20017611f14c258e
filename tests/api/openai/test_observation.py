"""A call against what its class promises, by a clock that the test turns."""

from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from loraplex.api.openai.call import Choice
from loraplex.api.openai.observation import CallClock
from loraplex.api.openai.outcomes import CANCELLED, COMPLETED, FAILED
from loraplex.api.series.calls import CallMetrics
from loraplex.engine.protocol.errors import PromptTooLong, WorkerLost
from loraplex.engine.protocol.generation import RequestOutput, RequestTiming
from loraplex.platform.slo.classes import SloClasses

CLASSES = SloClasses.parse("strict:ttft=1s,tpot=100ms,e2e=10s;free", "free")
WHOSE = {"model_name": "base", "slo_class": "strict", "tenant": "acme"}


class Text:
    finish_reason = None

    def __init__(self, output_tokens: int) -> None:
        self.output_tokens = output_tokens


class Driven:
    """A clock of one call with one choice."""

    def __init__(self, slo_class: str = "strict") -> None:
        self.registry = CollectorRegistry()
        self.now = 100.0
        self.tokens = 0
        self.clock = CallClock(
            CallMetrics(self.registry),
            base_name="base",
            slo_class=CLASSES.named(slo_class),
            tenant="acme",
            arrived_at=100.0,
            clock=lambda: self.now,
        )

    def token_at(self, seconds: float) -> None:
        self.now = 100.0 + seconds
        self.tokens += 1
        timing = RequestTiming(0.25, 0, 0, 0.5) if self.tokens == 1 else None
        self.clock.see(
            0, RequestOutput(request_id="r", token_ids=[7], output_tokens=1, timing=timing)
        )

    def end(self, outcome: str, failure: Exception | None = None) -> dict[str, float]:
        """The results that were counted."""
        choice = type("OneChoice", (), {"index": 0, "text": Text(self.tokens)})()
        self.clock.finish(outcome, 3, [cast(Choice, choice)], failure)
        return self.results()

    def results(self) -> dict[str, float]:
        return {
            sample.labels["result"]: sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "loraplex_slo_requests_total"
        }

    def value(self, name: str) -> float | None:
        return self.registry.get_sample_value(name, WHOSE)


@pytest.mark.parametrize(
    ("times", "result"),
    [
        ([0.9, 1.0, 1.1], "met"),
        ([1.1, 1.2, 1.3], "ttft"),
        ([0.5, 0.7, 0.9], "tpot"),
        ([1.5, 3.0, 4.5], "ttft"),
        ([0.5], "met"),
    ],
)
def test_a_call_is_good_when_it_meets_all_or_is_counted_by_what_it_missed_first(
    times: list[float], result: str
) -> None:
    driven = Driven()
    for seconds in times:
        driven.token_at(seconds)
    assert driven.end(COMPLETED) == {result: 1}


def test_the_last_token_has_a_limit_too() -> None:
    driven = Driven()
    for number in range(120):
        driven.token_at(0.1 + number * 0.09)
    assert driven.end(COMPLETED) == {"e2e": 1}


@pytest.mark.parametrize(
    ("waited", "results"), [(0.5, {}), (1.5, {"ttft": 1})], ids=["in time", "too late"]
)
def test_a_client_that_leaves_counts_only_against_a_promise_broken_by_then(
    waited: float, results: dict[str, float]
) -> None:
    driven = Driven()
    driven.now += waited
    assert driven.end(CANCELLED) == results


@pytest.mark.parametrize(
    ("failure", "results"),
    [
        (WorkerLost("gone"), {"failed": 1}),
        (ZeroDivisionError(), {"failed": 1}),
        (PromptTooLong("long"), {}),
    ],
)
def test_a_failure_counts_where_it_is_ours(failure: Exception, results: Any) -> None:
    admitted, refused = Driven(), Driven()
    assert admitted.end(FAILED, failure) == results
    refused.clock.refuse(failure)
    assert refused.results() == results


def test_a_class_without_objectives_takes_whatever_does_not_fail() -> None:
    driven = Driven("free")
    driven.token_at(500)
    assert driven.end(COMPLETED) == {"met": 1}


def test_times_are_told_under_vllms_names() -> None:
    driven = Driven()
    for seconds in (0.5, 0.6, 0.9):
        driven.token_at(seconds)
    driven.now += 50  # the client reads slowly: not a token's time
    driven.end(COMPLETED)
    assert driven.value("vllm:time_to_first_token_seconds_sum") == 0.5
    assert driven.value("vllm:inter_token_latency_seconds_count") == 2
    assert driven.value("vllm:inter_token_latency_seconds_sum") == pytest.approx(0.4)
    assert driven.value("vllm:request_time_per_output_token_seconds_sum") == pytest.approx(0.2)
    assert driven.value("vllm:e2e_request_latency_seconds_sum") == pytest.approx(0.9)
    assert driven.value("vllm:request_queue_time_seconds_sum") == 0.25
    assert driven.value("vllm:request_prefill_time_seconds_sum") == 0.5
    assert driven.value("vllm:generation_tokens_total") == 3
    assert driven.value("vllm:prompt_tokens_total") == 3
