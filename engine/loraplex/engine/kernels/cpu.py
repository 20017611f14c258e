"""The ops for a CPU on torch's own matrix products and attention; needs no compiler."""

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

_PADDING_LIMIT: Final = 1.25
"""Decodes attend together while the longest has at most this many times the shortest's blocks."""

_SMALL_BLOCKS: Final = 8
"""Below this many blocks padding costs less than another call."""


def sgmv_shrink(
    x: Tensor, pages: Tensor, offsets: Tensor, ranks: Tensor, segments: Tensor, tile_rank: int
) -> Tensor:
    in_features = x.shape[1]
    slices, tiles = offsets.shape[1:]
    h = x.new_zeros(x.shape[0], slices, tiles * tile_rank, dtype=torch.float32)
    offset_of, rank_of = offsets.tolist(), ranks.tolist()
    for start, end, adapter in segments.tolist():
        rows = x[start:end]
        for index, rank in enumerate(rank_of[adapter]):
            for tile, first in enumerate(range(0, rank, tile_rank)):
                last = min(first + tile_rank, rank)
                a = _tile(pages, offset_of[adapter][index][tile], last - first, in_features)
                target = h[start:end, index, first:last]
                if x.dtype == torch.float32:
                    torch.mm(rows, a.t(), out=target)
                else:
                    target.copy_(rows.float() @ a.float().t())
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
    offset_of, rank_of, scale_of = offsets.tolist(), ranks.tolist(), scales.tolist()
    for start, end, adapter in segments.tolist():
        for index, rank in enumerate(rank_of[adapter]):
            if rank == 0:
                continue
            out_start, out_end = slice_starts[index], slice_starts[index + 1]
            tiles = [
                (first, _tile(pages, offset, min(tile_rank, rank - first), out_end - out_start))
                for first, offset in zip(
                    range(0, rank, tile_rank), offset_of[adapter][index], strict=False
                )
            ]
            target, rows = y[start:end, out_start:out_end], h[start:end, index]
            if len(tiles) == 1 and y.dtype == torch.float32:
                target.addmm_(rows[:, :rank], tiles[0][1], alpha=scale_of[adapter][index])
                continue
            delta = torch.zeros(target.shape, dtype=torch.float32, device=y.device)
            for first, tile in tiles:
                delta.addmm_(rows[:, first : first + tile.shape[0]], tile.float())
            target.add_(delta.mul_(scale_of[adapter][index]))


def _tile(pages: Tensor, offset: int, ranks: int, width: int) -> Tensor:
    return pages.as_strided((ranks, width), (width, 1), offset)


def write_kv(
    kv: Tensor, pages: Tensor, slots: Tensor, layer: int, layers: int, block_tokens: int
) -> None:
    rows = pages.view(pages.shape[0] * layers * block_tokens, -1)
    is_written = slots >= 0
    if not bool(is_written.all()):
        slots, kv = slots[is_written], kv[is_written]
    rows.index_copy_(0, slots + layer * block_tokens, kv.flatten(1))


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
    rows, heads, head_size = query.shape
    # Grouped queries attend as the rows of their key-value head, so keys are never repeated.
    grouped = query.view(rows, kv_heads, heads // kv_heads, head_size)
    output = torch.empty_like(grouped)
    blocks = pages.view(pages.shape[0] * layers, -1)
    starts, contexts = query_starts.tolist(), context_tokens.tolist()
    is_single = [starts[s + 1] - starts[s] == 1 for s in range(len(contexts))]

    def gather(sequences: list[int], first_block: int, end_block: int) -> tuple[Tensor, Tensor]:
        """Keys and values `[sequences, kv_heads, tokens, head_size]` of a range of blocks."""
        table = block_tables[sequences, first_block:end_block].long()
        kv = blocks.index_select(0, (table * layers + layer).flatten())
        key, value = kv.view(len(sequences), -1, 2, kv_heads, head_size).unbind(2)
        return key.transpose(1, 2), value.transpose(1, 2)

    for group in _alike(
        [s for s, single in enumerate(is_single) if single], contexts, block_tokens
    ):
        longest = max(contexts[s] for s in group)
        first = max(0, min(contexts[s] for s in group) - window) // block_tokens if window else 0
        key, value = gather(group, first, -(-longest // block_tokens))
        positions = torch.arange(first * block_tokens, first * block_tokens + key.shape[2])
        own = context_tokens[group, None]
        is_seen = positions < own
        if window:
            is_seen &= positions >= own - window
        at = torch.tensor([starts[s] for s in group])
        attended = scaled_dot_product_attention(
            grouped[at], key, value, attn_mask=is_seen[:, None, None], scale=scale
        )
        output[at] = attended
    for sequence, context in enumerate(contexts):
        if is_single[sequence]:
            continue
        start, end = starts[sequence], starts[sequence + 1]
        first = max(0, context - (end - start) + 1 - window) // block_tokens if window else 0
        key, value = gather([sequence], first, -(-context // block_tokens))
        seen_tokens = context - first * block_tokens
        mask = _chunk_mask(end - start, seen_tokens, window)
        shape = (kv_heads, heads // kv_heads, seen_tokens, head_size)
        attended = scaled_dot_product_attention(
            grouped[start:end].permute(1, 2, 0, 3),
            key[0, :, None, :seen_tokens].expand(shape),
            value[0, :, None, :seen_tokens].expand(shape),
            attn_mask=mask,
            is_causal=mask is None,
            scale=scale,
        )
        output[start:end] = attended.permute(2, 0, 1, 3)
    return output.view(rows, heads, head_size)


def _alike(sequences: list[int], contexts: list[int], block_tokens: int) -> Iterator[list[int]]:
    """Groups of sequences whose lengths are near enough to be padded to the longest."""
    group: list[int] = []
    for sequence in sorted(sequences, key=contexts.__getitem__):
        if group:
            blocks, shortest = (-(-contexts[s] // block_tokens) for s in (sequence, group[0]))
            if blocks > max(_SMALL_BLOCKS, shortest * _PADDING_LIMIT):
                yield group
                group = []
        group.append(sequence)
    if group:
        yield group


def _chunk_mask(rows: int, context: int, window: int) -> Tensor | None:
    """What a chunk's rows, the last of `context` tokens, may see; None where plainly causal."""
    if rows == context and not window:
        return None
    positions = torch.arange(context)
    own = positions[context - rows :, None]
    is_seen = positions <= own
    if window:
        is_seen &= positions > own - window
    return is_seen
