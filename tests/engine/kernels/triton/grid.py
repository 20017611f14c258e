"""Which cells of a grid are tried: all in `make soak`, else a sample that covers each axis."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import torch

from tests.soak import SOAK

ROUNDING: Final = {torch.float32: 1e-5, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
"""The relative error of one rounding, and of sums in another order."""

_STRIDE: Final = 7
"""Shares no factor with the length of any axis here: a step that soon visits every value."""


def cells(
    outer: Iterable[tuple[Any, ...]], inner: Sequence[tuple[Any, ...]], turning: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """The product of `outer` and `inner`; in a sample each of `outer` once, `inner` in turn.

    To each cell comes a value of `turning` in turn, so that its values meet those of all axes.
    """
    assert len(inner) % _STRIDE
    chosen = [
        (*left, *(right if SOAK else inner[_STRIDE * place % len(inner)]))
        for place, left in enumerate(outer)
        for right in (inner if SOAK else inner[:1])
    ]
    return [
        (*cell, turning[(_STRIDE * place + place // 13) % len(turning)])
        for place, cell in enumerate(chosen)
    ]
