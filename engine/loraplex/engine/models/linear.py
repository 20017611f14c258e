"""A base linear: y = x · Wᵀ + b, with its weight in memory once."""

from typing import Any, Final, Protocol

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear

from loraplex.engine.kernels.native.library import library
from loraplex.engine.kernels.native.panels import PackedWeight, StepAdapters

_PACKING_ROWS: Final = 16
"""The rows oneDNN packs for: a decode step's, since prefill loses little by another layout."""


class Weight(Protocol):
    """W `[out_features, in_features]`, in whatever layout the device multiplies fastest."""

    def multiply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """`[rows, in_features]` to `[rows, out_features]`."""
        ...

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows of W, as an embedding of `numbers` `[rows]`."""
        ...

    def span(self, start: int, end: int) -> Tensor:
        """Rows `start` to `end` of W."""
        ...


def pack(weight: Tensor, dtype: torch.dtype, *, is_embedding: bool = False) -> Weight:
    """Take a weight for computing in `dtype`.

    On a CPU a bfloat16 weight stays narrow in memory where the compiled kernels widen it as they
    multiply, which changes no product. An embedding is not packed for oneDNN, whose layout
    hides its rows.
    """
    if weight.device.type == "cpu" and dtype == torch.float32:
        native = library()
        if native is not None:
            return PackedWeight(native, weight if _is_narrow(weight) else weight.float())
        if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            return _OneDnnWeight(weight.float(), is_packed=not is_embedding)
    return _PlainWeight(weight.to(dtype))


def _is_narrow(weight: Tensor) -> bool:
    return weight.dtype == torch.bfloat16


class _PlainWeight:
    def __init__(self, weight: Tensor) -> None:
        self._weight = weight

    def multiply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return linear(x, self._weight, bias)

    def rows(self, numbers: Tensor) -> Tensor:
        return embedding(numbers, self._weight)

    def span(self, start: int, end: int) -> Tensor:
        weight = self._weight.to_dense() if self._weight.is_mkldnn else self._weight
        return weight[start:end]


class _OneDnnWeight(_PlainWeight):
    """Without a compiler: oneDNN's own products, in the layout they want."""

    def __init__(self, weight: Tensor, *, is_packed: bool) -> None:
        super().__init__(weight)
        if is_packed:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, _PACKING_ROWS)

    def multiply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        scalars: list[Any] = []
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, bias, "none", scalars, "")
        return y


class Linear:
    def __init__(self, weight: Weight, bias: Tensor | None = None) -> None:
        self._weight = weight
        self._bias = bias

    @property
    def weight(self) -> Weight:
        return self._weight

    @property
    def bias(self) -> Tensor | None:
        """`[out_features]`"""
        return self._bias

    def __call__(self, x: Tensor) -> Tensor:
        """`[rows, in_features]` to `[rows, out_features]`."""
        return self._weight.multiply(x, self._bias)

    def adapted(
        self, x: Tensor, adapters: StepAdapters, module: int, slice_starts: tuple[int, ...]
    ) -> Tensor | None:
        """The same with LoRA added, where the weight can do both at once; else None."""
        if not isinstance(self._weight, PackedWeight):
            return None
        return self._weight.multiply_adapted(x, self._bias, adapters, module, slice_starts)
