"""sgmv_shrink and sgmv_expand in Triton's interpreter against the reference, over a whole grid."""

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import pytest
import torch

from loraplex.engine.kernels.ops import Backend, kernels
from tests.engine.kernels.cases import Sgmv, sgmv
from tests.engine.kernels.triton.grid import ROUNDING, cells

RANKS = (1, 4, 8, 12, 16, 24, 64, 128)
ROWS = (1, 15, 16, 17, 129)
TRITON, REFERENCE = kernels(Backend.TRITON), kernels(Backend.REFERENCE)


Layout = tuple[list[list[int]], list[tuple[int, int, int]]]
"""Ranks by adapter and slice; segments."""


class Geometry(NamedTuple):
    in_features: int
    widths: tuple[int, ...]
    tile_rank: int
    misaligned: int


GEOMETRIES = {
    "narrow": Geometry(56, (40, 24, 24), 16, 0),
    "odd": Geometry(57, (39, 24), 16, 3),
    "split sums": Geometry(2100, (24, 16, 16), 16, 0),
    "tiles of 4 ranks": Geometry(136, (48, 24), 4, 0),
    "one slice over tiles of columns": Geometry(64, (264,), 16, 8),
    "tiles of 1 rank": Geometry(40, (24, 24), 1, 0),
}


def one_segment(rank: int, rows: int, slices: int) -> Layout:
    return [[rank] * slices], [(0, rows, 0)]


def base_rows_and_absent_slices(rank: int, rows: int, slices: int) -> Layout:
    """Adapters 0 and 1 with base rows around and between them; each lacks a slice or has rank 1."""
    third = rows // 3
    ranks = [[rank, 0, 1][:slices], [0, rank, rank][-slices:]]
    return ranks, [(min(1, third), third, 1), (third + 1, max(third + 1, rows - 1), 0)]


def empty_segments(rank: int, rows: int, slices: int) -> Layout:
    """A graph's buffer whose tail is neutral, with one adapter twice and many more segments."""
    half = rows // 2
    segments = [(0, half, 1), (half, half, 0), (half, rows, 1)]
    return [[3] * slices, [rank] * slices], segments + [(rows, rows, 0)] * 9


LAYOUTS = {
    "one segment": one_segment,
    "base rows and absent slices": base_rows_and_absent_slices,
    "empty segments": empty_segments,
}
CELLS = cells(
    product(RANKS, ROWS),
    list(product((torch.float32, torch.float16, torch.bfloat16), LAYOUTS)),
    list(GEOMETRIES),
)


@pytest.mark.parametrize(("rank", "rows", "dtype", "layout", "geometry"), CELLS)
def test_sgmv(rank: int, rows: int, dtype: torch.dtype, layout: str, geometry: str) -> None:
    in_features, widths, tile_rank, misaligned = GEOMETRIES[geometry]
    ranks, segments = LAYOUTS[layout](rank, rows, len(widths))
    case = sgmv(
        ranks, segments, rows, dtype=dtype, in_features=in_features, widths=widths,
        tile_rank=tile_rank, misaligned=misaligned, seed=rank * rows,
    )  # fmt: skip
    assert_agrees(case)


def assert_agrees(case: Sgmv) -> None:
    """The sums in float32, and y rounded once, to what the reference has in float32 throughout."""
    partial_sums = case.shrink(TRITON)
    wide = replace(case, pages=case.pages.float(), x=case.x.float(), y=case.y.float())
    h = wide.shrink(REFERENCE)
    is_defined = case.is_defined
    torch.testing.assert_close(partial_sums.sum(0)[is_defined], h[is_defined], atol=1e-5, rtol=1e-5)
    expected = wide.expand(REFERENCE, h)
    torch.testing.assert_close(
        case.expand(TRITON, partial_sums).float(),
        expected,
        atol=2e-5,
        rtol=ROUNDING[case.y.dtype],
    )
    torch.testing.assert_close(wide.expand(REFERENCE, partial_sums), expected, atol=2e-5, rtol=1e-5)


def test_base_rows_and_absent_slices_keep_their_bits() -> None:
    ranks, segments = base_rows_and_absent_slices(24, 33, 3)
    case = sgmv(ranks, segments, 33)
    y = case.expand(TRITON, case.shrink(TRITON))
    for start, end in ((0, 1), (11, 12), (32, 33)):
        assert torch.equal(y[start:end], case.y[start:end])
    assert torch.equal(y[1:11, :40], case.y[1:11, :40]), "adapter 1 has no first slice"
    assert not torch.equal(y[1:11, 40:], case.y[1:11, 40:])


@pytest.mark.parametrize("rows", [0, 3])
def test_nothing_to_do_is_no_launch(rows: int) -> None:
    case = sgmv([[4]], [], rows, widths=(24,))
    assert torch.equal(case.expand(TRITON, case.shrink(TRITON)), case.y)


def test_a_row_is_summed_in_the_same_order_whatever_shares_its_batch() -> None:
    segments = [(0, 5, 0), (5, 6, 1), (6, 17, 0)]
    together = sgmv([[24, 3], [16, 8]], segments, 17, in_features=2100, widths=(40, 24))
    alone = replace(
        together,
        x=together.x[5:6],
        y=together.y[5:6],
        segments=torch.tensor([[0, 1, 1]], dtype=torch.int32),
    )
    y = together.expand(TRITON, together.shrink(TRITON))
    assert torch.equal(y[5:6], alone.expand(TRITON, alone.shrink(TRITON)))
