"""A weight packed for the C++ linear: panels of 24 output columns, float32 or bfloat16."""

from ctypes import Array, addressof, c_long
from functools import cache

import torch
from torch import Tensor

from loraplex.engine.kernels.huge_pages import huge
from loraplex.engine.kernels.native.library import COLUMNS, Adapters, Library, Weights


class PackedWeight:
    """W of y = x · Wᵀ + b, in memory once, in the dtype it was given: float32 or bfloat16.

    Products and sums are float32 either way. A row's result has the same bits in every batch.
    """

    def __init__(self, library: Library, weight: Tensor) -> None:
        """`weight` is `[out_features, in_features]`."""
        self._library = library
        self.out_features, self.in_features = weight.shape
        self._is_narrow = weight.dtype == torch.bfloat16 and self.in_features % 2 == 0
        rows = weight if self._is_narrow else weight.float()
        self._panels = _panels(rows, features_a_cell=2 if self._is_narrow else 1)
        self._weights = Weights(
            self._panels.data_ptr(), self._is_narrow, self.in_features, self.out_features
        )
        self._address = addressof(self._weights)

    def multiply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """`[rows, in_features]` to `[rows, out_features]`, float32; `bias` is float32 too."""
        assert x.stride(-1) == 1, "rows lie in one piece each"
        rows = x.shape[0]
        y = x.new_empty(rows, self.out_features)
        self._library.linear(
            self._address,
            x.data_ptr(),
            x.stride(0),
            rows,
            None if bias is None else bias.data_ptr(),
            y.data_ptr(),
        )
        return y

    def multiply_adapted(
        self,
        x: Tensor,
        bias: Tensor | None,
        adapters: "StepAdapters",
        module: int,
        slice_starts: tuple[int, ...],
    ) -> Tensor:
        """The product, and beside it the LoRA of each row's adapter, in one call.

        The columns of the output belong to modules `module`, `module` + 1 and so on, which begin
        at `slice_starts`. Unlike shrink and expand after the product, this brings the adapters'
        tiles nearer while the product keeps memory idle.
        """
        assert x.stride(-1) == 1, "rows lie in one piece each"
        rows = x.shape[0]
        y = x.new_empty(rows, self.out_features)
        starts = _starts(slice_starts)
        self._library.adapted_linear(
            self._address,
            x.data_ptr(),
            x.stride(0),
            rows,
            None if bias is None else bias.data_ptr(),
            y.data_ptr(),
            adapters.address,
            module,
            len(slice_starts) - 1,
            starts,
        )
        return y

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows of W `[numbers, in_features]` in float32: how an embedding reads the same weight."""
        return self._panels[numbers // COLUMNS, :, numbers % COLUMNS].flatten(1).float()

    def span(self, start: int, end: int) -> Tensor:
        """Rows `start` to `end` of W in float32, unpacked panel after panel."""
        first = start // COLUMNS
        panels = self._panels[first : -(-end // COLUMNS)]
        rows = panels.transpose(1, 2).reshape(len(panels) * COLUMNS, -1)
        return rows[start - first * COLUMNS : end - first * COLUMNS].float()


def _panels(weight: Tensor, features_a_cell: int) -> Tensor:
    """`[panels, cells, 24, features of a cell]` of `[out_features, in_features]`."""
    out_features, in_features = weight.shape
    panels, cells = -(-out_features // COLUMNS), in_features // features_a_cell
    packed = huge(panels * COLUMNS * in_features, weight.dtype)
    view = packed.view(panels, cells, COLUMNS, features_a_cell)
    whole = out_features // COLUMNS
    body = weight[: whole * COLUMNS].view(whole, COLUMNS, cells, features_a_cell)
    view[:whole].copy_(body.transpose(1, 2))
    if whole < panels:
        rest = weight[whole * COLUMNS :]
        view[whole, :, : rest.shape[0]] = rest.view(-1, cells, features_a_cell).transpose(0, 1)
    return view


@cache
def _starts(slice_starts: tuple[int, ...]) -> Array[c_long]:
    """As the library reads them; a model has a few."""
    return (c_long * len(slice_starts))(*slice_starts)


class StepAdapters:
    """A step's adapters as the library reads them; the tensors must outlive this."""

    def __init__(self, adapters: Adapters) -> None:
        self._adapters = adapters
        self.address = addressof(adapters)


def adapters_of(
    a_offsets: Tensor,
    b_offsets: Tensor,
    ranks: Tensor,
    scales: Tensor,
    segments: Tensor,
    tile_rank: int,
    pages: Tensor,
) -> StepAdapters | None:
    """A step's adapters for `multiply_adapted`; None where the library cannot read them.

    Shapes are those of `lora.segments.LoraBatch`; the tensors must outlive the result.
    """
    if pages.dtype != torch.float32 or pages.device.type != "cpu":
        return None
    return StepAdapters(
        Adapters(
            pages.data_ptr(),
            a_offsets.data_ptr(),
            b_offsets.data_ptr(),
            ranks.data_ptr(),
            scales.data_ptr(),
            segments.data_ptr(),
            segments.shape[0],
            *a_offsets.shape[1:],
            tile_rank,
        )
    )
