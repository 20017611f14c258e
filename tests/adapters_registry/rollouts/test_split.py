from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from loraplex.adapters_registry.rollouts.split import SHARES, pick, place_of, shares

STABLE, CANDIDATE = 3, 7
callable_sets = st.sets(st.sampled_from([STABLE, CANDIDATE, 9]))
weights = st.integers(0, SHARES)
places = st.integers(0, SHARES - 1)


@given(weights, callable_sets)
def test_shares_add_up_and_what_cannot_be_called_gets_none(weight: int, ready: set[int]) -> None:
    found = shares(STABLE, CANDIDATE, weight, ready)
    assert set(found) <= ready & {STABLE, CANDIDATE}
    assert not found or sum(found.values()) == SHARES
    if {STABLE, CANDIDATE} <= ready:
        assert found.get(CANDIDATE, 0) == weight
        assert found.get(STABLE, 0) == SHARES - weight


@given(weights)
def test_exactly_the_weight_of_a_hundred_places_are_the_candidates(weight: int) -> None:
    found = shares(STABLE, CANDIDATE, weight, {STABLE, CANDIDATE})
    got = [pick(found, STABLE, place) for place in range(SHARES)]
    assert got.count(CANDIDATE) == weight
    assert got.count(STABLE) == SHARES - weight


@given(places, weights, weights)
def test_whoever_got_the_candidate_keeps_it_when_its_share_grows(
    place: int, one: int, other: int
) -> None:
    less, more = sorted((one, other))
    ready = {STABLE, CANDIDATE}
    if pick(shares(STABLE, CANDIDATE, less, ready), STABLE, place) == CANDIDATE:
        assert pick(shares(STABLE, CANDIDATE, more, ready), STABLE, place) == CANDIDATE


@given(callable_sets, places, weights)
def test_one_version_left_gets_everybody(ready: set[int], place: int, weight: int) -> None:
    found = shares(STABLE, CANDIDATE, weight, ready)
    if len(found) == 1:
        assert pick(found, STABLE, place) in ready


@given(st.uuids(), st.uuids(), st.text())
def test_a_conversation_keeps_its_place(tenant: UUID, rollout: UUID, key: str) -> None:
    place = place_of(tenant, rollout, key)
    assert 0 <= place < SHARES
    assert place == place_of(tenant, rollout, key)


def test_conversations_spread_evenly() -> None:
    tenant, rollout = uuid4(), uuid4()
    places = [place_of(tenant, rollout, f"conversation/{number}") for number in range(20_000)]
    share = sum(place < 30 for place in places) / len(places)
    assert abs(share - 0.30) < 0.02  # six standard deviations


def test_another_rollout_begins_with_other_people() -> None:
    tenant = uuid4()
    first, second = uuid4(), uuid4()
    keys = [f"user/{number}" for number in range(1000)]
    early = {key for key in keys if place_of(tenant, first, key) < 10}
    again = {key for key in early if place_of(tenant, second, key) < 10}
    assert len(again) < len(early) / 2
