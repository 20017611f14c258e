"""When a delivery that failed is tried again, and when not any more."""

import random
from datetime import timedelta

MAX_ATTEMPTS = 10
FIRST_DELAY_SECONDS = 10.0
GROWTH = 3.0
JITTER = 0.2
LONGEST_WAIT = timedelta(days=1)
"""A receiver's Retry-After counts up to this."""


def delay_after(
    attempts: int, chance: random.Random, asked_seconds: int | None
) -> timedelta | None:
    """How long to wait after so many attempts; None after the last.

    10 s, 30 s, 90 s … 18 h, each a fifth less or more, 27 hours together: long enough to sleep
    over, and what failed together does not come back together. `asked_seconds` is the receiver's
    Retry-After, which can only make it longer.
    """
    if attempts >= MAX_ATTEMPTS:
        return None
    seconds = FIRST_DELAY_SECONDS * GROWTH ** (attempts - 1)
    delay = timedelta(seconds=seconds * chance.uniform(1 - JITTER, 1 + JITTER))
    if asked_seconds is None:
        return delay
    return max(delay, min(timedelta(seconds=asked_seconds), LONGEST_WAIT))
