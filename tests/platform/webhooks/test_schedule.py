import random
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from loraplex.platform.webhooks.schedule import LONGEST_WAIT, MAX_ATTEMPTS, delay_after


def delays(seed: int, asked_seconds: int | None = None) -> list[timedelta]:
    chance = random.Random(seed)
    waits = [delay_after(number, chance, asked_seconds) for number in range(1, MAX_ATTEMPTS)]
    assert delay_after(MAX_ATTEMPTS, chance, asked_seconds) is None
    return [wait for wait in waits if wait is not None]


@given(seed=st.integers())
def test_each_wait_is_longer_and_all_together_are_about_a_day(seed: int) -> None:
    waits = delays(seed)
    assert len(waits) == MAX_ATTEMPTS - 1
    assert waits == sorted(waits)
    assert timedelta(seconds=8) <= waits[0] <= timedelta(seconds=12)
    assert timedelta(hours=20) < sum(waits, timedelta()) < timedelta(hours=34)


def test_what_failed_together_does_not_come_back_together() -> None:
    assert len({delays(seed)[3] for seed in range(50)}) == 50


@given(seed=st.integers(), asked_seconds=st.integers(0, 10**7))
def test_a_receiver_can_ask_for_more_time_but_not_for_ever(seed: int, asked_seconds: int) -> None:
    asked = min(timedelta(seconds=asked_seconds), LONGEST_WAIT)
    waits = zip(delays(seed), delays(seed, asked_seconds), strict=True)
    assert all(longer == max(wait, asked) for wait, longer in waits)
