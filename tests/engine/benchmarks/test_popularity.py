"""Popular adapters are asked for more often, by Zipf's law or not at all."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.benchmarks.popularity import Popularity, draw, weights


@given(st.sampled_from(Popularity), st.integers(1, 500), st.floats(0, 3))
def test_weights_are_shares_and_never_rise(
    popularity: Popularity, count: int, exponent: float
) -> None:
    shares = weights(popularity, count, exponent)
    assert len(shares) == count
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)


def test_the_second_is_half_as_popular_and_with_uniform_just_as_much() -> None:
    first, second, *_ = weights(Popularity.ZIPF, 10)
    assert second == pytest.approx(first / 2)
    assert set(weights(Popularity.UNIFORM, 4, 2.0)) == {0.25}


def test_draws_follow_the_weights_and_the_seed() -> None:
    def drawn() -> list[str]:
        return draw("abcd", Popularity.ZIPF, 1.0, 20_000, random.Random(3))

    once = drawn()
    assert once == drawn()
    assert once.count("a") / once.count("b") == pytest.approx(2, rel=0.1)
