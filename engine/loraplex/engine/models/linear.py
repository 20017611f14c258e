"""A base linear: y = x · Wᵀ + b, with its weight in memory once."""

from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import linear

_PACKING_ROWS: Final = 16
"""The rows oneDNN packs for: a decode step's, since prefill loses little by another layout."""


class Linear:
    """On a CPU the weight is handed to oneDNN, which keeps it in the layout its products want."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._bias = bias
        self._is_packed = _packs(weight)
        self._weight = _pack(weight) if self._is_packed else weight

    def __call__(self, x: Tensor) -> Tensor:
        """`[rows, in_features]` to `[rows, out_features]`."""
        if self._is_packed:
            return _onednn_linear(x, self._weight, self._bias)
        return linear(x, self._weight, self._bias)


def output_logits(hidden: Tensor, weight: Tensor) -> Tensor:
    """`[rows, vocabulary]` in float32, by a weight that is also the embedding, so never packed."""
    if _packs(weight):
        return _onednn_linear(hidden, weight, None)
    return linear(hidden, weight).float()


def _packs(weight: Tensor) -> bool:
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    )


def _pack(weight: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, _PACKING_ROWS)
    return packed


def _onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    scalars: list[Any] = []
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", scalars, "")
    return y
