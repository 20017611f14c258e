"""sgmv_shrink: h = x · Aᵀ, a row's adapter by its segment.

A program takes one segment, some ranks of one slice, and one part of the features. Each part has
partial sums of its own in h, which expand adds in order: the sum is the same at every run, and
nothing has to be cleared first. After Punica's SGMV (arXiv 2310.18547).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from loraplex.engine.kernels.triton.launch import Launch, compute_dtype, vector_elements
from loraplex.engine.kernels.triton.tiles import shrink_tiles


@triton.jit
def shrink_kernel(
    h,
    x,
    pages,
    offsets,
    ranks,
    segments,
    in_features,
    features_a_split,
    rank_blocks,
    x_row,
    h_split,
    h_row,
    h_slice,
    offsets_adapter,
    offsets_slice,
    ranks_adapter,
    TILE_RANK: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_RANKS: tl.constexpr,
    BLOCK_FEATURES: tl.constexpr,
    VECTOR: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    segment = tl.program_id(0)
    slice_number = tl.program_id(1) // rank_blocks
    first_rank = tl.program_id(1) % rank_blocks * BLOCK_RANKS
    split = tl.program_id(2)
    start = tl.load(segments + segment * 3)
    end = tl.load(segments + segment * 3 + 1)
    if start >= end:
        return
    adapter = tl.load(segments + segment * 3 + 2).to(tl.int64)
    rank = tl.load(ranks + adapter * ranks_adapter + slice_number)
    if first_rank >= rank:
        return
    lanes = first_rank + tl.arange(0, BLOCK_RANKS)
    is_rank = lanes < rank
    tiles = offsets + adapter * offsets_adapter + slice_number * offsets_slice
    a_rows = tl.load(tiles + lanes // TILE_RANK, mask=is_rank, other=0)
    a_rows += (lanes % TILE_RANK) * in_features
    first_feature = split * features_a_split
    end_feature = tl.minimum(first_feature + features_a_split, in_features)
    for first_row in range(start, end, BLOCK_ROWS):
        rows = first_row + tl.arange(0, BLOCK_ROWS)
        is_row = rows < end
        x_rows = x + rows.to(tl.int64) * x_row
        # Offsets come from memory, so only this test and this form tell the compiler that whole
        # vectors may be loaded.
        if tl.max(a_rows % VECTOR, 0) == 0:
            total = _sum_over_features(
                x_rows, is_row, pages + a_rows // VECTOR * VECTOR, is_rank, first_feature,
                end_feature, in_features, BLOCK_ROWS, BLOCK_RANKS, BLOCK_FEATURES, COMPUTE,
            )  # fmt: skip
        else:
            total = _sum_over_features(
                x_rows, is_row, pages + a_rows, is_rank, first_feature,
                end_feature, in_features, BLOCK_ROWS, BLOCK_RANKS, BLOCK_FEATURES, COMPUTE,
            )  # fmt: skip
        h_rows = h + split.to(tl.int64) * h_split + rows.to(tl.int64) * h_row
        tl.store(
            h_rows[:, None] + slice_number * h_slice + lanes[None, :],
            total,
            mask=is_row[:, None] & is_rank[None, :],
        )


@triton.jit
def _sum_over_features(
    x_rows,
    is_row,
    a_rows,
    is_rank,
    first_feature,
    end_feature,
    in_features,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_RANKS: tl.constexpr,
    BLOCK_FEATURES: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    total = tl.zeros((BLOCK_ROWS, BLOCK_RANKS), dtype=tl.float32)
    for feature in range(first_feature, end_feature, BLOCK_FEATURES):
        features = feature + tl.arange(0, BLOCK_FEATURES)
        is_feature = features < in_features
        x_block = tl.load(
            x_rows[:, None] + features[None, :],
            mask=is_row[:, None] & is_feature[None, :],
            other=0.0,
        )
        a_block = tl.load(
            a_rows[None, :] + features[:, None],
            mask=is_feature[:, None] & is_rank[None, :],
            other=0.0,
        )
        total = tl.dot(
            x_block.to(COMPUTE), a_block.to(COMPUTE), acc=total, input_precision="tf32x3"
        )
    return total


def shrink_launches(
    x: Tensor, pages: Tensor, offsets: Tensor, ranks: Tensor, segments: Tensor, tile_rank: int
) -> tuple[list[Launch], Tensor]:
    """The launch and the h it fills: `[splits, rows, slices, tiles * tile_rank]`."""
    rows, in_features = x.shape
    slices, tiles = offsets.shape[1:]
    most_ranks = tiles * tile_rank
    choice = shrink_tiles(rows, segments.shape[0], most_ranks, in_features, x.element_size())
    h = x.new_empty((choice.splits, rows, slices, most_ranks), dtype=torch.float32)
    rank_blocks = -(-most_ranks // choice.ranks)
    assert x.stride(1) == offsets.stride(2) == ranks.stride(1) == 1
    launch = Launch(
        shrink_kernel,
        (segments.shape[0] if rows else 0, slices * rank_blocks, choice.splits),
        {
            "h": h,
            "x": x,
            "pages": pages,
            "offsets": offsets,
            "ranks": ranks,
            "segments": segments,
            "in_features": in_features,
            "features_a_split": choice.features_a_split(in_features),
            "rank_blocks": rank_blocks,
            "x_row": x.stride(0),
            "h_split": h.stride(0),
            "h_row": h.stride(1),
            "h_slice": h.stride(2),
            "offsets_adapter": offsets.stride(0),
            "offsets_slice": offsets.stride(1),
            "ranks_adapter": ranks.stride(0),
            "TILE_RANK": tile_rank,
            "BLOCK_ROWS": choice.rows,
            "BLOCK_RANKS": choice.ranks,
            "BLOCK_FEATURES": choice.features,
            "VECTOR": vector_elements(pages.dtype),
            "COMPUTE": compute_dtype(pages.dtype),
        },
        choice.warps,
        choice.stages,
        choice.registers,
    )
    return [launch], h
