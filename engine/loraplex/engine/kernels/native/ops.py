"""The ops on a CPU: in C++ for float32 where it could be compiled, else by torch."""

from collections.abc import Sequence
from ctypes import byref, c_long

import torch
from torch import Tensor

from loraplex.engine.kernels import cpu
from loraplex.engine.kernels.native.library import (
    MOST_HEAD_SIZE,
    AttentionShape,
    Library,
    SgmvTables,
    library,
)

write_kv = cpu.write_kv


def _library_for(*tensors: Tensor) -> Library | None:
    """The library, where it can read these tensors."""
    for tensor in tensors:
        if tensor.dtype != torch.float32 or tensor.stride(-1) != 1:
            return None
    return library()


def sgmv_shrink(
    x: Tensor,
    pages: Tensor,
    offsets: Tensor,
    ranks: Tensor,
    segments: Tensor,
    tile_rank: int,
) -> Tensor:
    native = _library_for(x, pages)
    if native is None:
        return cpu.sgmv_shrink(x, pages, offsets, ranks, segments, tile_rank)
    rows, in_features = x.shape
    slices, tiles = offsets.shape[1:]
    h = x.new_zeros(rows, slices, tiles * tile_rank)
    native.shrink(
        x.data_ptr(),
        x.stride(0),
        in_features,
        pages.data_ptr(),
        byref(SgmvTables.of(offsets, ranks, tile_rank)),
        segments.data_ptr(),
        segments.shape[0],
        h.data_ptr(),
        h.stride(0),
        h.stride(1),
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
    native = _library_for(y, h, pages)
    if native is None:
        cpu.sgmv_expand(y, h, pages, offsets, ranks, scales, segments, slice_starts, tile_rank)
        return
    native.expand(
        y.data_ptr(),
        y.stride(0),
        h.data_ptr(),
        h.stride(0),
        h.stride(1),
        pages.data_ptr(),
        byref(SgmvTables.of(offsets, ranks, tile_rank)),
        scales.data_ptr(),
        scales.stride(0),
        scales.stride(1),
        segments.data_ptr(),
        segments.shape[0],
        (c_long * len(slice_starts))(*slice_starts),
    )


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
    native = _library_for(query, pages) if head_size <= MOST_HEAD_SIZE else None
    if native is None:
        return cpu.paged_attention(
            query,
            pages,
            block_tables,
            query_starts,
            context_tokens,
            layer,
            layers,
            block_tokens,
            kv_heads,
            scale,
            window,
        )
    query = query.contiguous()
    output = torch.empty_like(query)
    shape = AttentionShape(heads, kv_heads, head_size, layer, layers, block_tokens, window, scale)
    native.attention(
        query.data_ptr(),
        pages.data_ptr(),
        block_tables.data_ptr(),
        block_tables.shape[1],
        query_starts.data_ptr(),
        context_tokens.data_ptr(),
        context_tokens.shape[0],
        byref(shape),
        output.data_ptr(),
    )
    return output
