"""Sampling means what its parameters say, row by row."""

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from loraplex.engine.protocol.errors import EngineFailure
from loraplex.engine.protocol.sampling import SamplingParams
from loraplex.engine.sampling.draw import draw, uniform
from loraplex.engine.sampling.logits import adjusted
from loraplex.engine.sampling.sampler import SampledToken, sample
from loraplex.engine.sampling.state import SamplingState

VOCABULARY = 200


def random_logits(seed: int, size: int = VOCABULARY) -> Tensor:
    return torch.randn(size, generator=torch.manual_seed(seed)) * 3


def state(prompt: tuple[int, ...] = (), **fields: Any) -> SamplingState:
    return SamplingState(SamplingParams(max_tokens=9, **fields), prompt, VOCABULARY)


def possible(logits: Tensor, **fields: Any) -> dict[int, float]:
    """Tokens that can be drawn, with their shares of a fine grid of draws."""
    params = SamplingParams(max_tokens=1, **fields)
    steps = 4000
    counts = Counter(draw(logits, params, (step + 0.5) / steps) for step in range(steps))
    return {token: count / steps for token, count in counts.items()}


def by_sorting(
    logits: Tensor, temperature: float, top_k: int, top_p: float, min_p: float
) -> set[int]:
    """The textbook's candidates: sort everything, then cut; borders are a hair wider."""
    weights = torch.softmax(logits.double() / temperature, -1)
    border = min_p * float(weights.max()) * (1 - 1e-6)
    kept = [(float(w), i) for i, w in enumerate(weights) if w >= border]
    kept.sort(key=lambda pair: -pair[0])
    if top_k:
        kept = kept[:top_k]
    total, reached, chosen = sum(w for w, _ in kept), 0.0, set()
    for weight, token in kept:
        if reached > top_p * total * (1 + 1e-6):
            break
        chosen.add(token)
        reached += weight
    return chosen


@given(
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([0.3, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 3, 50, 500]),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.02, 0.3]),
    number=st.floats(0, 1, exclude_max=True),
)
def test_a_drawn_token_is_one_the_textbook_keeps(
    seed: int, temperature: float, top_k: int, top_p: float, min_p: float, number: float
) -> None:
    logits = random_logits(seed)
    params = SamplingParams(
        max_tokens=1, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p
    )
    kept = by_sorting(logits, temperature, top_k, top_p, min_p)
    assert draw(logits, params, number) in kept


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    logits = random_logits(1, size=12)
    wanted = torch.softmax(logits / 1.5, -1)
    seen = possible(logits, temperature=1.5)
    for token, probability in enumerate(wanted.tolist()):
        assert seen.get(token, 0.0) == pytest.approx(probability, abs=1e-3)


def test_filters_renormalise_what_they_leave() -> None:
    logits = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05]))
    assert possible(logits, top_k=2) == pytest.approx({0: 0.625, 1: 0.375}, abs=1e-3)
    assert possible(logits, top_p=0.79) == pytest.approx({0: 0.625, 1: 0.375}, abs=1e-3)
    assert possible(logits, min_p=0.25) == pytest.approx(
        {0: 0.5 / 0.95, 1: 0.3 / 0.95, 2: 0.15 / 0.95}, abs=1e-3
    )
    # top_p counts what top_k has left: 0.5 / 0.8 reaches 0.6 alone.
    assert set(possible(logits, top_k=2, top_p=0.6)) == {0}


def test_a_nucleus_wider_than_the_first_look_is_found() -> None:
    logits = torch.zeros(3000)
    logits[0] = 0.1
    assert len(possible(logits, top_p=0.999)) > 64


def test_the_last_number_below_one_falls_on_a_possible_token() -> None:
    logits = torch.full((VOCABULARY,), float("-inf"))
    logits[:3] = torch.tensor([1.0, 2.0, 0.5])
    params = SamplingParams(max_tokens=1)
    assert draw(logits, params, math.nextafter(1.0, 0.0)) == 2
    assert draw(logits, params, 0.0) == 0


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    numbers = [uniform(seed, position) for seed in range(100) for position in range(100)]
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < 1 for number in numbers)
    assert sum(numbers) / len(numbers) == pytest.approx(0.5, abs=0.01)
    assert uniform(5, 7) == uniform(5, 7)
    assert uniform(12, 3) != uniform(1, 23), "seed and position do not run together"


def test_a_row_is_sampled_the_same_in_any_batch() -> None:
    rows = torch.stack([random_logits(seed) for seed in range(5)])
    states = [state(seed=seed, temperature=0.9, top_p=0.8) for seed in range(5)]
    together = sample(rows, states)
    alone = [sample(rows[i : i + 1], states[i : i + 1])[0] for i in range(5)]
    assert together == alone


def test_repetition_counts_the_prompt_and_the_output_once_each() -> None:
    logits = torch.tensor([2.0, -2.0, 3.0, -3.0] + [0.5] * (VOCABULARY - 4))
    one = state((0, 1), repetition_penalty=2.0)
    one.record(2)
    one.record(2)
    changed = adjusted(logits, one)
    assert changed[:5].tolist() == [1.0, -4.0, 1.5, -3.0, 0.5]


def test_presence_and_frequency_count_the_output_alone() -> None:
    logits = torch.zeros(VOCABULARY)
    one = state((0,), presence_penalty=0.5, frequency_penalty=0.25)
    for token in (3, 3, 4):
        one.record(token)
    changed = adjusted(logits, one)
    assert changed[[0, 3, 4, 5]].tolist() == [0.0, -1.0, -0.75, 0.0]


def test_a_bias_moves_a_token_and_leaves_the_model_s_logprobs_alone() -> None:
    logits = random_logits(3)
    target = int(logits.argmin())
    outcome = sample(
        logits[None], [state(temperature=0.0, logit_bias={target: 100.0}, logprobs=2)]
    )[0]
    assert isinstance(outcome, SampledToken)
    assert outcome.token_id == target
    assert outcome.logprob is not None
    wanted = logits.log_softmax(-1)
    assert outcome.logprob.logprob == pytest.approx(float(wanted[target]), abs=1e-5)
    assert [token for token, _ in outcome.logprob.top] == wanted.topk(2).indices.tolist()


def test_no_alternatives_may_be_asked_for() -> None:
    outcome = sample(random_logits(1)[None], [state(temperature=0.0, logprobs=0)])[0]
    assert isinstance(outcome, SampledToken)
    assert outcome.logprob is not None
    assert outcome.logprob.top == []


def test_stop_tokens_cannot_come_before_the_least_number_of_tokens() -> None:
    logits = torch.zeros(VOCABULARY)
    logits[7] = 10.0
    one = state(temperature=0.0, min_tokens=2, stop_token_ids=(7,))
    chosen = []
    for _ in range(3):
        outcome = sample(logits[None], [one])[0]
        assert isinstance(outcome, SampledToken)
        chosen.append(outcome.token_id)
        one.record(outcome.token_id)
    assert chosen[:2] == [0, 0]
    assert chosen[2] == 7


def test_a_row_without_numbers_fails_alone() -> None:
    rows = torch.stack([random_logits(1), torch.full((VOCABULARY,), float("nan"))])
    good, bad = sample(rows, [state(), state()])
    assert isinstance(good, SampledToken)
    assert isinstance(bad, EngineFailure)


def test_a_row_that_cannot_be_sampled_fails_alone() -> None:
    rows = torch.stack([random_logits(1), random_logits(2)])
    bad, good = sample(rows, [state(logit_bias={VOCABULARY + 5: 1.0}), state(temperature=0.0)])
    assert isinstance(bad, EngineFailure)
    assert isinstance(good, SampledToken)


def test_sampling_changes_nothing_it_was_given() -> None:
    rows = random_logits(1)[None]
    before = rows.clone()
    sample(rows, [state((1, 2), repetition_penalty=1.3, logit_bias={1: 3.0}, min_tokens=1)])
    assert torch.equal(rows, before)
