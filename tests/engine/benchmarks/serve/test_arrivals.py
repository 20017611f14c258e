"""Arrivals are decided beforehand: by seed and rate, never by answers."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.benchmarks.serve.arrivals import Process, arrivals

RATES = st.floats(0.1, 1000)


@given(st.sampled_from(Process), RATES, st.integers(), st.integers(1, 200))
def test_as_many_come_as_were_asked_for_in_order_and_the_same_for_a_seed(
    process: Process, rate: float, seed: int, requests: int
) -> None:
    times = arrivals(process, rate, random.Random(seed), requests=requests)
    assert len(times) == requests
    assert times == sorted(times)
    assert times[0] >= 0
    assert times == arrivals(process, rate, random.Random(seed), requests=requests)


@given(st.sampled_from(Process), RATES, st.integers(), st.floats(0.1, 2))
def test_none_comes_after_the_duration(
    process: Process, rate: float, seed: int, duration: float
) -> None:
    times = arrivals(process, rate, random.Random(seed), duration_seconds=duration)
    assert all(at <= duration for at in times)
    more = arrivals(process, rate, random.Random(seed), requests=len(times) + 1)
    assert more[-1] > duration


def test_poissons_gaps_have_the_mean_and_the_spread_of_an_exponential() -> None:
    times = arrivals(Process.POISSON, 50.0, random.Random(1), requests=20_000)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(1 / 50, rel=0.03)
    assert deviation == pytest.approx(mean, rel=0.05)


def test_constant_gaps_are_all_the_same() -> None:
    times = arrivals(Process.CONSTANT, 4.0, random.Random(1), requests=4)
    assert times == [0.25, 0.5, 0.75, 1.0]
