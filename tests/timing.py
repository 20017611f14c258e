"""Whether a time tells what a tenant may not know: an attacker's best threshold, and luck's share.

A sample is the time of one thing a tenant does, in one of two worlds that a coin chose: where
`is_known`, another tenant has had the same content before; where not, it has had other content of
the same size at the same moment. Everything else is the same, so nothing but a leak can tell the
worlds apart.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.soak import examples

LIMIT = 0.55
"""The area under the curve that a classifier may reach at most."""
SURE_DEVIATIONS = 4.0
"""Of the area without any leak: luck alone goes beyond once in 16,000 runs."""
FEW, MANY = 60, 1600
"""With so many as MANY luck alone goes beyond LIMIT once in 2,000 runs; with 400, once in 12."""


@dataclass(frozen=True)
class Timed:
    is_known: bool
    seconds: float


def worlds() -> list[bool]:
    """As many of one as of the other, in an order that no drift of the machine follows."""
    count = examples(FEW, MANY)
    drawn = [number % 2 == 0 for number in range(count)]
    random.Random(count).shuffle(drawn)
    return drawn


def area(samples: Sequence[Timed]) -> float:
    """What a threshold on the time reaches, below or above it: the rank statistic of Mann-Whitney.

    0.5 is guessing, 1 is knowing. Equal times share their ranks.
    """
    known = [one.seconds for one in samples if one.is_known]
    other = [one.seconds for one in samples if not one.is_known]
    wins = sum((a > b) + 0.5 * (a == b) for a in known for b in other)
    share = wins / (len(known) * len(other))
    return max(share, 1 - share)


def most(samples: Sequence[Timed]) -> float:
    """The area beyond which it is no luck: LIMIT, or what so few samples can tell."""
    known = sum(one.is_known for one in samples)
    other = len(samples) - known
    deviation = math.sqrt((known + other + 1) / (12 * known * other))
    return max(LIMIT, 0.5 + SURE_DEVIATIONS * deviation) if len(samples) < MANY else LIMIT
