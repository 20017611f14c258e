"""Least load counted at routing, as properties of every set of workers."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from loraplex.platform.routing.policy import Candidate, choose
from tests.soak import examples

COUNTS = st.integers(0, 100)
EXAMPLES = settings(max_examples=examples(100, 5000))


def candidate(worker_id: str, own: int = 0, reported: int = 0, then: int = 0) -> Candidate:
    return Candidate(
        worker_id=worker_id,
        own_requests=own,
        reported_requests=reported,
        own_requests_then=then,
        max_request_tokens=1000,
    )


CANDIDATES = st.lists(
    st.builds(
        Candidate,
        worker_id=st.text(),
        own_requests=COUNTS,
        reported_requests=COUNTS,
        own_requests_then=COUNTS,
        max_request_tokens=st.integers(1, 1000),
    ),
    min_size=1,
)


@EXAMPLES
@given(CANDIDATES, st.integers(1, 1000), st.randoms(use_true_random=False))
def test_nobody_who_fits_is_less_loaded_than_the_chosen(
    candidates: list[Candidate], tokens: int, randomness: random.Random
) -> None:
    chosen = choose(candidates, tokens, randomness)
    assert chosen is not None
    fitting = [one for one in candidates if one.max_request_tokens >= tokens]
    assert not fitting or chosen in fitting
    assert all(chosen.load_requests <= one.load_requests for one in fitting or candidates)


@EXAMPLES
@given(st.integers(1, 8), st.integers(1, 100), st.integers())
def test_a_burst_spreads_evenly_between_two_heartbeats(
    workers: int, requests: int, seed: int
) -> None:
    own = Counter({str(number): 0 for number in range(workers)})
    randomness = random.Random(seed)
    for _ in range(requests):
        chosen = choose([candidate(name, own[name]) for name in own], 10, randomness)
        assert chosen is not None
        own[chosen.worker_id] += 1
    assert max(own.values()) - min(own.values()) <= 1


@EXAMPLES
@given(COUNTS, COUNTS, COUNTS)
def test_a_request_is_never_counted_twice(own_now: int, own_then: int, others: int) -> None:
    seen = candidate("w", own=own_now, reported=own_then + others, then=own_then)
    assert seen.load_requests == own_now + others


def test_ties_are_broken_at_random() -> None:
    candidates = [candidate("a"), candidate("b")]
    chosen = {choose(candidates, 1, random.Random(seed)) for seed in range(20)}
    assert chosen == set(candidates)


def test_without_candidates_nobody_is_chosen() -> None:
    assert choose([], 1, random.Random(0)) is None
