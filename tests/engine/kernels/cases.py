"""Inputs of the ops, made to hurt: scattered tiles, odd offsets, NaN wherever nothing may read."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

NAN = float("nan")


@dataclass
class Sgmv:
    """Adapters of given ranks by slice, in scattered tiles, and rows cut into segments."""

    pages: Tensor
    a_offsets: Tensor
    b_offsets: Tensor
    ranks: Tensor
    scales: Tensor
    segments: Tensor
    x: Tensor
    y: Tensor
    slice_starts: list[int]
    tile_rank: int

    def shrink(self, ops: Any) -> Tensor:
        h: Tensor = ops.sgmv_shrink(
            self.x, self.pages, self.a_offsets, self.ranks, self.segments, self.tile_rank
        )
        return h

    def expand(self, ops: Any, h: Tensor) -> Tensor:
        y = self.y.clone()
        ops.sgmv_expand(
            y, h, self.pages, self.b_offsets, self.ranks, self.scales, self.segments,
            self.slice_starts, self.tile_rank,
        )  # fmt: skip
        return y

    @property
    def is_defined(self) -> Tensor:
        """Which elements of h mean something: `[rows, slices, ranks]`."""
        defined = torch.zeros(
            self.x.shape[0], self.ranks.shape[1], self.a_offsets.shape[2] * self.tile_rank
        ).bool()
        for start, end, adapter in self.segments.tolist():
            for index, rank in enumerate(self.ranks[adapter].tolist()):
                defined[start:end, index, :rank] = True
        return defined


def sgmv(
    ranks: Sequence[Sequence[int]],
    segments: Sequence[tuple[int, int, int]],
    rows: int,
    *,
    dtype: torch.dtype = torch.float32,
    in_features: int = 56,
    widths: Sequence[int] = (40, 24, 24),
    tile_rank: int = 16,
    misaligned: int = 0,
    seed: int = 0,
) -> Sgmv:
    """`ranks` by adapter and slice; every tile starts `misaligned` elements into a page."""
    generator = torch.Generator().manual_seed(seed)
    slices = len(widths)
    tiles = max(1, max(-(-rank // tile_rank) for adapter in ranks for rank in adapter))
    page_elements = -(-(max(in_features, *widths) * tile_rank + misaligned) // 16) * 16
    shape = (len(ranks), slices, tiles)
    pages = torch.full((2 * len(ranks) * slices * tiles, page_elements), NAN, dtype=dtype)
    places = iter(torch.randperm(len(pages), generator=generator).tolist())
    offsets = {width: torch.full(shape, -1) for width in ("a", "b")}
    for adapter, of_adapter in enumerate(ranks):
        for index, rank in enumerate(of_adapter):
            for tile in range(-(-rank // tile_rank)):
                present = min(tile_rank, rank - tile * tile_rank)
                for name, width in (("a", in_features), ("b", widths[index])):
                    page = next(places)
                    weight = torch.randn(present * width, generator=generator) / width**0.5
                    pages[page, misaligned : misaligned + present * width] = weight.to(dtype)
                    offsets[name][adapter, index, tile] = page * page_elements + misaligned
    return Sgmv(
        pages=pages,
        a_offsets=offsets["a"],
        b_offsets=offsets["b"],
        ranks=torch.tensor(ranks, dtype=torch.int32),
        scales=torch.rand(len(ranks), slices, generator=generator) + 0.5,
        segments=torch.tensor(segments, dtype=torch.int32).view(-1, 3),
        x=torch.randn(rows, in_features, generator=generator).to(dtype),
        y=torch.randn(rows, sum(widths), generator=generator).to(dtype),
        slice_starts=[0, *accumulate(widths)],
        tile_rank=tile_rank,
    )


@dataclass
class Attention:
    query: Tensor
    pages: Tensor
    block_tables: Tensor
    query_starts: Tensor
    context_tokens: Tensor
    layer: int
    layers: int
    block_tokens: int
    kv_heads: int
    window: int

    def attend(self, ops: Any) -> Tensor:
        result: Tensor = ops.paged_attention(
            self.query, self.pages, self.block_tables, self.query_starts, self.context_tokens,
            self.layer, self.layers, self.block_tokens, self.kv_heads,
            self.query.shape[-1] ** -0.5, self.window,
        )  # fmt: skip
        return result


def attention(
    sequences: Sequence[tuple[int, int]],
    *,
    kv_heads: int = 2,
    heads: int = 4,
    head_size: int = 64,
    window: int = 0,
    block_tokens: int = 4,
    dtype: torch.dtype = torch.float32,
    spare_blocks: int = 0,
    seed: int = 0,
) -> Attention:
    """Sequences of (new tokens, context tokens); what lies behind a context is NaN.

    Block tables are `spare_blocks` wider than the longest sequence needs.
    """
    generator = torch.Generator().manual_seed(seed)
    layers, layer = 2, 1
    blocks = [max(1, -(-context // block_tokens)) for _, context in sequences]
    kv = torch.randn(
        sum(blocks) + 1, layers, block_tokens, 2, kv_heads, head_size, generator=generator
    ).to(dtype)
    order = torch.randperm(len(kv), generator=generator)
    tables = torch.empty(len(sequences), max(blocks) + spare_blocks, dtype=torch.int32)
    start = 0
    for row, count, (_, context) in zip(tables, blocks, sequences, strict=True):
        own = order[start : start + count]
        row[:count], row[count:] = own, own[0]
        kv[own[-1], :, context - (count - 1) * block_tokens :] = NAN
        start += count
    starts = torch.tensor([0, *accumulate(new for new, _ in sequences)])
    return Attention(
        query=torch.randn(int(starts[-1]), heads, head_size, generator=generator).to(dtype),
        pages=kv.view(len(kv), -1),
        block_tables=tables,
        query_starts=starts.int(),
        context_tokens=torch.tensor([context for _, context in sequences], dtype=torch.int32),
        layer=layer,
        layers=layers,
        block_tokens=block_tokens,
        kv_heads=kv_heads,
        window=window,
    )
