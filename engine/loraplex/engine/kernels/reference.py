"""The ops in plain torch, one row after another: the oracle for every other backend."""

from collections.abc import Sequence

import torch
from torch import Tensor


def sgmv_shrink(
    x: Tensor, pages: Tensor, offsets: Tensor, ranks: Tensor, segments: Tensor, tile_rank: int
) -> Tensor:
    rows, in_features = x.shape
    slices, tiles = offsets.shape[1:]
    h = torch.zeros(rows, slices, tiles * tile_rank, dtype=torch.float32, device=x.device)
    elements = pages.flatten()
    for start, end, adapter in segments.tolist():
        for index in range(slices):
            for first_rank, tile in _tiles(
                elements,
                offsets[adapter, index],
                int(ranks[adapter, index]),
                in_features,
                tile_rank,
            ):
                h[start:end, index, first_rank : first_rank + tile.shape[0]] = (
                    x[start:end].float() @ tile.float().T
                )
    return h


def sgmv_expand(
    y: Tensor,
    h: Tensor,
    pages: Tensor,
    offsets: Tensor,
    ranks: Tensor,
    scales: Tensor,
    segments: Tensor,
    slice_starts: Sequence[int],
    tile_rank: int,
) -> None:
    elements = pages.flatten()
    if h.dim() > offsets.dim():  # partial sums over features, as a GPU leaves them
        h = h.sum(0)
    for start, end, adapter in segments.tolist():
        for index in range(offsets.shape[1]):
            first, last = slice_starts[index], slice_starts[index + 1]
            delta = torch.zeros(end - start, last - first, dtype=torch.float32, device=y.device)
            for first_rank, tile in _tiles(
                elements,
                offsets[adapter, index],
                int(ranks[adapter, index]),
                last - first,
                tile_rank,
            ):
                delta += h[start:end, index, first_rank : first_rank + tile.shape[0]] @ tile.float()
            y[start:end, first:last] += (delta * scales[adapter, index]).to(y.dtype)


def _tiles(
    elements: Tensor, offsets: Tensor, rank: int, width: int, tile_rank: int
) -> list[tuple[int, Tensor]]:
    """(first rank, `[ranks, width]`) of each tile that a module has."""
    tiles = []
    for first_rank, offset in zip(range(0, rank, tile_rank), offsets.tolist(), strict=False):
        ranks = min(tile_rank, rank - first_rank)
        tiles.append((first_rank, elements[offset : offset + ranks * width].view(ranks, width)))
    return tiles


def write_kv(
    kv: Tensor, pages: Tensor, slots: Tensor, layer: int, layers: int, block_tokens: int
) -> None:
    rows = pages.view(pages.shape[0] * layers * block_tokens, -1)
    for row, slot in enumerate(slots.tolist()):
        if slot < 0:
            continue
        rows[slot + layer * block_tokens] = kv[row].flatten()


def paged_attention(
    query: Tensor,
    pages: Tensor,
    block_tables: Tensor,
    query_starts: Tensor,
    context_tokens: Tensor,
    layer: int,
    layers: int,
    block_tokens: int,
    kv_heads: int,
    scale: float,
    window: int,
) -> Tensor:
    heads, head_size = query.shape[1:]
    output = torch.empty_like(query)
    blocks = pages.view(pages.shape[0], layers, block_tokens, 2, kv_heads, head_size)
    starts, contexts = query_starts.tolist(), context_tokens.tolist()
    for sequence, context in enumerate(contexts):
        start, end = starts[sequence], starts[sequence + 1]
        if context == 0:
            output[start:end] = 0
            continue
        table = block_tables[sequence, : -(-context // block_tokens)].long()
        kv = blocks[table, layer].reshape(-1, 2, kv_heads, head_size)[:context].float()
        key, value = kv.repeat_interleave(heads // kv_heads, dim=2).unbind(1)
        positions = torch.arange(context, device=query.device)
        own = positions[context - (end - start) :, None]
        is_seen = positions[None] <= own
        if window:
            is_seen &= positions[None] > own - window
        scores = torch.einsum("qhd,khd->hqk", query[start:end].float(), key) * scale
        weights = scores.masked_fill(~is_seen, float("-inf")).softmax(-1)
        output[start:end] = torch.einsum("hqk,khd->qhd", weights, value).to(query.dtype)
    return output
