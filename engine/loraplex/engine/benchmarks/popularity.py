"""How often each of many adapters is asked for."""

import random
from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

Item = TypeVar("Item")


class Popularity(StrEnum):
    ZIPF = "zipf"
    UNIFORM = "uniform"


def weights(popularity: Popularity, count: int, exponent: float = 1.0) -> list[float]:
    """A weight for each rank, the most popular first; they sum to 1.

    Zipf: the k-th of `count` is asked for in proportion to 1 / k^exponent.
    """
    raw = [
        1.0 if popularity is Popularity.UNIFORM else rank**-exponent for rank in range(1, count + 1)
    ]
    total = sum(raw)
    return [weight / total for weight in raw]


def draw(
    items: Sequence[Item],
    popularity: Popularity,
    exponent: float,
    count: int,
    chance: random.Random,
) -> list[Item]:
    """So many independent draws."""
    return chance.choices(items, weights(popularity, len(items), exponent), k=count)
