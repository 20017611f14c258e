"""When requests arrive: decided before the first is sent, whatever the server does."""

import random
from enum import StrEnum


class Process(StrEnum):
    POISSON = "poisson"
    """Independent callers: gaps are exponential with mean 1 / rate."""
    CONSTANT = "constant"


def arrivals(
    process: Process,
    rate: float,
    chance: random.Random,
    *,
    requests: int | None = None,
    duration_seconds: float | None = None,
) -> list[float]:
    """Seconds after the start at which each request arrives, ascending.

    `rate` is in requests a second. It ends after so many requests, or with the last arrival within
    the duration; one of the two must be given, and with both the first end counts.
    """
    assert requests is not None or duration_seconds is not None, "arrivals must end"
    times: list[float] = []
    at = 0.0
    while requests is None or len(times) < requests:
        at += chance.expovariate(rate) if process is Process.POISSON else 1.0 / rate
        if duration_seconds is not None and at > duration_seconds:
            break
        times.append(at)
    return times
