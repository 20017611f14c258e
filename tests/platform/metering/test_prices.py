from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.platform.metering.prices import in_force
from tests.platform.metering.made import BEGINNING, FREE, made_price

TOKENS = st.integers(0, 2**31 - 1)
RATES = st.integers(0, 10**12)
LATER = BEGINNING + timedelta(days=1)


def test_a_million_tokens_cost_the_rate() -> None:
    price = made_price(500_000, 50_000, 1_500_000)
    assert price.cost(1_000_000, 0, 0) == 500_000
    assert price.cost(1_000_000, 1_000_000, 0) == 50_000
    assert price.cost(0, 0, 1_000_000) == 1_500_000


def test_a_request_is_rounded_up_once() -> None:
    price = made_price(1, 1, 1)
    assert price.cost(1, 0, 0) == 1
    assert price.cost(400_000, 200_000, 600_000) == 1
    assert price.cost(400_000, 200_000, 600_001) == 2
    assert price.cost(0, 0, 0) == 0


@given(prompt=TOKENS, cached=TOKENS, output=TOKENS, rate=RATES, share=st.integers(0, 100))
def test_cached_tokens_are_billed_once_and_never_over_the_prompt(
    prompt: int, cached: int, output: int, rate: int, share: int
) -> None:
    price = made_price(rate, rate * share // 100, rate)
    cost = price.cost(prompt, cached, output)
    assert cost == price.cost(prompt, min(prompt, cached), output)
    assert price.cost(0, 0, output) <= cost <= price.cost(prompt, 0, output)
    same = made_price(rate, rate, rate)
    assert same.cost(prompt, cached, output) == same.cost(prompt, 0, output)


@given(prompt=TOKENS, cached=TOKENS, output=TOKENS, rates=st.tuples(RATES, RATES, RATES))
def test_a_cost_is_less_than_one_micro_above_the_exact_sum(
    prompt: int, cached: int, output: int, rates: tuple[int, int, int]
) -> None:
    read = min(prompt, cached)
    exact = (prompt - read) * rates[0] + read * rates[1] + output * rates[2]
    assert 0 <= 1_000_000 * made_price(*rates).cost(prompt, cached, output) - exact < 1_000_000


@pytest.mark.parametrize("counts", [(-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_nothing_is_counted_below_zero(counts: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="counted from 0"):
        FREE.cost(*counts)


def test_the_most_specific_price_applies_and_of_equals_the_newest() -> None:
    general = made_price(1, effective_from=LATER)
    models = made_price(2, base_model="base")
    tenants = replace(made_price(3), is_tenants_own=True)
    both = replace(made_price(4, base_model="base"), is_tenants_own=True)
    newer = replace(both, input_micros_per_million=5, effective_from=LATER)
    known = [FREE, general, models, tenants, both, newer]
    for number in range(1, len(known)):
        assert in_force(known[: number + 1], "base", LATER) == known[number]
    assert in_force(known, "base", LATER - timedelta(microseconds=1)) == both
    assert in_force(known, "other", LATER) == tenants
    assert in_force(known, None, LATER) == tenants
    assert in_force([FREE, general, models], None, LATER) == general
