"""Which cells of a grid are tried: all in `make soak`, else a sample that covers each axis."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

import torch

ROUNDING: Final = {torch.float32: 1e-5, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
"""The relative error of one rounding, and of sums in another order."""

_IS_SOAK: Final = os.environ.get("LORAPLEX_SOAK") == "1"
_STRIDE: Final = 7


def cells(
    outer: Iterable[tuple[Any, ...]], inner: Sequence[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """The product of both; in a sample each of `outer` once, with one of `inner` in turn.

    `inner`, a product itself, is walked in steps that share no factor with its length, so that
    every value of each of its axes comes soon and with others beside it each time.
    """
    if _IS_SOAK:
        return [(*left, *right) for left in outer for right in inner]
    assert len(inner) % _STRIDE
    return [(*left, *inner[_STRIDE * place % len(inner)]) for place, left in enumerate(outer)]
