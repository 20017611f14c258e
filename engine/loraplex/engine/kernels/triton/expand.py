"""sgmv_expand: y += scale · h · B, a row's adapter by its segment.

A program takes one segment and some columns of one slice, adds shrink's partial sums in their
order, multiplies by all ranks the adapter has, and adds to y once.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import triton
import triton.language as tl
from torch import Tensor

from loraplex.engine.kernels.triton.launch import Launch, vector_elements
from loraplex.engine.kernels.triton.tiles import expand_tiles

SLICES_LIMIT: Final = 3
"""q, k and v: their columns travel as numbers, since a table of them would have to be copied."""

_TF32_LOST_BITS: Final = 13
"""Of float32's 23 bits of fraction, tf32 keeps 10."""


@triton.jit
def expand_kernel(
    y,
    h,
    pages,
    offsets,
    ranks,
    scales,
    segments,
    first_start,
    second_start,
    third_start,
    last_end,
    y_row,
    h_split,
    h_row,
    h_slice,
    offsets_adapter,
    offsets_slice,
    ranks_adapter,
    scales_adapter,
    TILE_RANK: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_RANKS: tl.constexpr,
    VECTOR: tl.constexpr,
    IS_NARROW: tl.constexpr,
    TF32_LOST_BITS: tl.constexpr,
):
    first_column = tl.program_id(0) * BLOCK_COLUMNS
    slice_number = tl.program_id(1)
    segment = tl.program_id(2)
    is_first, is_second = slice_number == 0, slice_number == 1
    slice_start = tl.where(is_first, first_start, tl.where(is_second, second_start, third_start))
    slice_end = tl.where(is_first, second_start, tl.where(is_second, third_start, last_end))
    width = slice_end - slice_start
    if first_column >= width:
        return
    start = tl.load(segments + segment * 3)
    end = tl.load(segments + segment * 3 + 1)
    if start >= end:
        return
    adapter = tl.load(segments + segment * 3 + 2).to(tl.int64)
    rank = tl.load(ranks + adapter * ranks_adapter + slice_number)
    if rank == 0:
        return
    scale = tl.load(scales + adapter * scales_adapter + slice_number)
    tiles = offsets + adapter * offsets_adapter + slice_number * offsets_slice
    columns = first_column + tl.arange(0, BLOCK_COLUMNS)
    is_column = columns < width
    for first_row in range(start, end, BLOCK_ROWS):
        rows = (first_row + tl.arange(0, BLOCK_ROWS)).to(tl.int64)
        is_row = first_row + tl.arange(0, BLOCK_ROWS) < end
        y_block = y + rows[:, None] * y_row + slice_start + columns[None, :]
        is_cell = is_row[:, None] & is_column[None, :]
        before = tl.load(y_block, mask=is_cell, other=0.0)
        delta = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
        for first_rank in range(0, rank, BLOCK_RANKS):
            lanes = first_rank + tl.arange(0, BLOCK_RANKS)
            is_rank = lanes < rank
            b_rows = tl.load(tiles + lanes // TILE_RANK, mask=is_rank, other=0)
            b_rows += (lanes % TILE_RANK) * width
            is_weight = is_rank[:, None] & is_column[None, :]
            # As in shrink: this test and this form allow whole vectors.
            if tl.max(b_rows % VECTOR, 0) == 0:
                b_aligned = pages + b_rows // VECTOR * VECTOR
                b = tl.load(b_aligned[:, None] + columns[None, :], mask=is_weight, other=0.0)
            else:
                b = tl.load(pages + b_rows[:, None] + columns[None, :], mask=is_weight, other=0.0)
            h_block = h + rows[:, None] * h_row + slice_number * h_slice + lanes[None, :]
            is_partial = is_row[:, None] & is_rank[None, :]
            intermediate = tl.zeros((BLOCK_ROWS, BLOCK_RANKS), dtype=tl.float32)
            for split in tl.static_range(SPLITS):
                intermediate += tl.load(h_block + split * h_split, mask=is_partial, other=0.0)
            b = b.to(tl.float32)
            if IS_NARROW:
                # Narrow weights are exact in tf32, so two products keep h's float32.
                bits = intermediate.to(tl.int32, bitcast=True) & -(1 << TF32_LOST_BITS)
                coarse = bits.to(tl.float32, bitcast=True)
                delta = tl.dot(intermediate - coarse, b, acc=delta, input_precision="tf32")
                delta = tl.dot(coarse, b, acc=delta, input_precision="tf32")
            else:
                delta = tl.dot(intermediate, b, acc=delta, input_precision="tf32x3")
        tl.store(y_block, (before.to(tl.float32) + delta * scale).to(y.dtype.element_ty), is_cell)


def expand_launches(
    y: Tensor,
    h: Tensor,
    pages: Tensor,
    offsets: Tensor,
    ranks: Tensor,
    scales: Tensor,
    segments: Tensor,
    slice_starts: Sequence[int],
    tile_rank: int,
) -> tuple[list[Launch], None]:
    """`h` as shrink_launches's: `[splits, rows, slices, tiles * tile_rank]`."""
    slices = offsets.shape[1]
    assert slices <= SLICES_LIMIT, f"{slices} slices, at most {SLICES_LIMIT} can share a launch"
    choice = expand_tiles(y.shape[0], segments.shape[0], h.shape[3])
    bounds = [*slice_starts, *[slice_starts[-1]] * (SLICES_LIMIT - slices)]
    widest = max(end - start for start, end in pairwise(slice_starts))
    assert y.stride(1) == offsets.stride(2) == ranks.stride(1) == scales.stride(1) == 1
    launch = Launch(
        expand_kernel,
        (-(-widest // choice.columns), slices, segments.shape[0] if y.shape[0] else 0),
        {
            "y": y,
            "h": h,
            "pages": pages,
            "offsets": offsets,
            "ranks": ranks,
            "scales": scales,
            "segments": segments,
            "first_start": bounds[0],
            "second_start": bounds[1],
            "third_start": bounds[2],
            "last_end": bounds[3],
            "y_row": y.stride(0),
            "h_split": h.stride(0),
            "h_row": h.stride(1),
            "h_slice": h.stride(2),
            "offsets_adapter": offsets.stride(0),
            "offsets_slice": offsets.stride(1),
            "ranks_adapter": ranks.stride(0),
            "scales_adapter": scales.stride(0),
            "TILE_RANK": tile_rank,
            "SPLITS": h.shape[0],
            "BLOCK_ROWS": choice.rows,
            "BLOCK_COLUMNS": choice.columns,
            "BLOCK_RANKS": choice.ranks,
            "VECTOR": vector_elements(pages.dtype),
            "IS_NARROW": pages.element_size() < 4,
            "TF32_LOST_BITS": _TF32_LOST_BITS,
        },
        choice.warps,
        choice.stages,
    )
    return [launch], None
