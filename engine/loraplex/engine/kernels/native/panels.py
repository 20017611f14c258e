"""A weight packed for the C++ linear: panels of 24 output columns, float32 or bfloat16."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from loraplex.engine.kernels.native.library import COLUMNS, Library


class PackedWeight:
    """W of y = x · Wᵀ + b, in memory once, in the dtype it was given: float32 or bfloat16.

    Products and sums are float32 either way. A row's result has the same bits in every batch.
    """

    def __init__(self, library: Library, weight: Tensor) -> None:
        """`weight` is `[out_features, in_features]`."""
        self._library = library
        self.out_features, self.in_features = weight.shape
        rows = pad(weight, (0, 0, 0, -self.out_features % COLUMNS))
        panels = rows.view(-1, COLUMNS, self.in_features).transpose(1, 2)
        self._panels = panels.contiguous()
        """`[panels, in_features, 24]`"""

    def multiply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """`[rows, in_features]` to `[rows, out_features]`, float32; `bias` is float32 too."""
        x = x if x.stride(-1) == 1 else x.contiguous()
        y = x.new_empty(x.shape[0], self.out_features)
        self._library.linear(
            x.data_ptr(),
            x.stride(0),
            self._panels.data_ptr(),
            self._panels.dtype == torch.bfloat16,
            None if bias is None else bias.data_ptr(),
            y.data_ptr(),
            x.shape[0],
            self.in_features,
            self.out_features,
        )
        return y

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows of W `[numbers, in_features]` in float32: how an embedding reads the same weight."""
        return self._panels[numbers // COLUMNS, :, numbers % COLUMNS].float()
