"""Latencies count from the intended arrival; goodput counts what meets every objective."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.benchmarks.serve.outcome import Outcome
from loraplex.engine.benchmarks.serve.summary import Latencies, RateResult, summarize
from loraplex.engine.protocol.objectives import Objective

SECONDS = st.floats(0, 1000)


def outcome(*token_times: float, tokens: int = 0, sent_at: float = 10.0, **fields: str) -> Outcome:
    """A request that was to arrive at second 10."""
    return Outcome(
        model="m",
        intended_at=10.0,
        sent_at=sent_at,
        token_times=list(token_times),
        output_tokens=tokens or len(token_times),
        ended_at=max(token_times, default=10.0),
        error=fields.get("error"),
    )


def summary(*outcomes: Outcome, **slo: float) -> RateResult:
    limits = {Objective(name): limit for name, limit in slo.items()}
    return summarize(outcomes, limits, started_at=9.0, url="u", process="poisson", offered_rate=2.0)


def test_latencies_are_by_their_definitions() -> None:
    # It was sent half a second late, and the server is not made to look faster by that.
    one = outcome(11.0, 11.5, 13.0, tokens=5, sent_at=10.5)
    assert one.ttft == 1.0
    assert one.e2e == 3.0
    assert one.tpot == 2.0 / 4
    assert one.itls == [0.5, 1.5]
    assert one.lag == 0.5


def test_a_single_token_has_no_tpot_and_meets_any() -> None:
    one = outcome(11.0)
    assert one.tpot is None
    assert one.itls == []
    assert one.meets({Objective.TPOT: 0.0})
    assert summary(one).tpot_ms is None


@given(st.lists(SECONDS, min_size=1))
def test_percentiles_are_ordered_and_within_the_samples(samples: list[float]) -> None:
    found = Latencies.of(samples)
    assert found is not None
    low, high = min(samples) * 1e3 - 1e-3, max(samples) * 1e3 + 1e-3
    assert low <= found.p50 <= found.p90 <= found.p99 <= high
    assert low <= found.mean <= high


@given(st.integers(1, 300))
def test_percentiles_lie_where_interpolation_puts_them(count: int) -> None:
    found = Latencies.of(float(value) for value in range(count))
    assert found is not None
    for percent, value in ((50, found.p50), (90, found.p90), (99, found.p99)):
        assert value == pytest.approx((count - 1) * percent / 100 * 1e3, abs=1e-3)


def test_no_sample_has_no_percentiles() -> None:
    assert Latencies.of([]) is None


def test_goodput_counts_only_what_meets_every_objective() -> None:
    fast, slow_start = outcome(10.1, 10.2, 10.3), outcome(12.0, 12.1, 12.2)
    slow_decode, failed = outcome(10.1, 13.0), outcome(10.1, error="cut_short")
    found = summary(fast, slow_start, slow_decode, failed, ttft=1.0, tpot=0.5)
    assert found.duration_seconds == 4.0
    assert (found.requests, found.completed, found.good) == (4, 3, 1)
    assert found.goodput_per_s == 1 / 4
    assert found.requests_per_s == 3 / 4
    assert found.output_tokens_per_s == 8 / 4
    assert found.errors == {"cut_short": 1}
    assert found.slo_ms == {"ttft": 1000.0, "tpot": 500.0}


@given(
    st.lists(st.lists(SECONDS, min_size=1, max_size=5).map(sorted), max_size=20), SECONDS, SECONDS
)
def test_a_tighter_objective_never_makes_more_good(
    gaps: list[list[float]], limit: float, tighter: float
) -> None:
    outcomes = [outcome(*(10.0 + gap for gap in one)) for one in gaps]
    loose = summary(*outcomes, ttft=max(limit, tighter), e2e=math.inf).good
    tight = summary(*outcomes, ttft=min(limit, tighter), e2e=math.inf).good
    assert loose is not None
    assert tight is not None
    assert tight <= loose <= len(outcomes)


def test_without_objectives_there_is_no_goodput() -> None:
    assert summary(outcome(11.0)).goodput_per_s is None


def test_a_client_that_sends_late_says_so() -> None:
    assert summary(outcome(11.0, sent_at=10.01)).client_kept_up
    assert not summary(outcome(11.0, sent_at=10.03)).client_kept_up


def test_nothing_at_all_is_a_result_too() -> None:
    found = summary(ttft=1.0)
    assert (found.requests, found.good, found.goodput_per_s) == (0, 0, 0.0)
    assert found.client_kept_up
