"""The four ops as the dispatcher calls them: their launches, started in order.

Nothing here waits for the device or reads from it, and every grid follows from shapes, so all of
it can be captured in a graph whose buffers are then rewritten in place. What a graph does not use
is neutral: a segment that ends where it starts, a slot below 0, a sequence without tokens or
without context (its rows become 0).
"""

from collections.abc import Sequence

from torch import Tensor

from loraplex.engine.kernels.triton.attention import attention_launches
from loraplex.engine.kernels.triton.expand import expand_launch
from loraplex.engine.kernels.triton.shrink import shrink_launch
from loraplex.engine.kernels.triton.write_kv import write_kv_launch


def sgmv_shrink(
    x: Tensor, pages: Tensor, offsets: Tensor, ranks: Tensor, segments: Tensor, tile_rank: int
) -> Tensor:
    launch, h = shrink_launch(x, pages, offsets, ranks, segments, tile_rank)
    launch.run()
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
    expand_launch(y, h, pages, offsets, ranks, scales, segments, slice_starts, tile_rank).run()


def write_kv(
    kv: Tensor, pages: Tensor, slots: Tensor, layer: int, layers: int, block_tokens: int
) -> None:
    write_kv_launch(kv, pages, slots, layer, layers, block_tokens).run()


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
    launches, output = attention_launches(
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
    for launch in launches:
        launch.run()
    return output
