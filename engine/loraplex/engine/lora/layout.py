"""Where an adapter's rank tiles go: packed into whole pages, none across a page's border."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loraplex.engine.lora.extras import AdapterExtras, ExtrasLayout, plan_extras, resolve_extras
from loraplex.engine.lora.modules import ModuleNumbers
from loraplex.engine.lora.spread import place
from loraplex.engine.memory.errors import PoolTooSmall
from loraplex.engine.memory.pool import PageId
from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, TensorRef

TILE_RANK_LIMIT: Final = 16
"""Ranks in a tile: the least rows of a tensor core's matrix product."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Ranks `start` to `end` of A or B of one module, as rows of `width` elements.

    A's rows are its own; B is stored transposed, one row a rank, so that expanding is a sum of
    rows. `page` counts the adapter's own pages, `offset` elements within that page.
    """

    module: int
    tensor: TensorRef
    is_a: bool
    index: int
    start: int
    end: int
    width: int
    page: int
    offset: int


@dataclass(frozen=True)
class AdapterLayout:
    """A packing plan: `pages` pages hold all `tiles`. Ranks and scales by module number."""

    pages: int
    tiles: tuple[Tile, ...]
    modules: tuple[tuple[int, int, float], ...]
    """(module number, true rank, scale)"""
    tile_rank: int
    extras: ExtrasLayout | None = None

    @property
    def tiles_per_module(self) -> int:
        return max((-(-rank // self.tile_rank) for _, rank, _ in self.modules), default=1)

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """`[5, tiles]`: whether of A, module, index, page and offset of each tile."""
        rows = [(t.is_a, t.module, t.index, t.page, t.offset) for t in self.tiles]
        return np.array(rows, dtype=np.int64).reshape(-1, 5).T


@dataclass(frozen=True)
class AdapterTables:
    """What kernels need to find one resident adapter.

    a_offsets  [modules, tiles]  int64 elements from the pool's start, -1 where absent
    b_offsets  [modules, tiles]  likewise
    ranks      [modules]         int32, 0 where absent
    scales     [modules]         float32
    extras     None where the adapter is nothing but pairs of linears
    """

    a_offsets: Tensor
    b_offsets: Tensor
    ranks: Tensor
    scales: Tensor
    extras: AdapterExtras | None = None


def tile_rank(page_elements: int, widest: int) -> int:
    """The most ranks a tile may have so that every tile fits a page: a power of two."""
    if widest > page_elements:
        raise PoolTooSmall(
            f"A page of {page_elements} elements cannot hold one rank of {widest} features; "
            "larger blocks make larger pages.",
            field="block_tokens",
            rule=f"a page of at least {widest} elements",
            value=page_elements,
        )
    ranks = TILE_RANK_LIMIT
    while ranks * widest > page_elements:
        ranks //= 2
    return ranks


def plan_layout(
    spec: AdapterSpec, numbers: ModuleNumbers, page_elements: int, ranks_per_tile: int
) -> AdapterLayout:
    """Pack an adapter's tiles, largest first, each into the first page with room.

    Raises AdapterUnavailable where the adapter does not fit the base model.
    """
    numbers.check_base(spec)
    modules = [(numbers.number(module), module) for module in spec.modules]
    pieces = [
        piece for number, module in modules for piece in _pieces(number, module, ranks_per_tile)
    ]
    pieces.sort(key=lambda piece: (piece[4] - piece[3]) * piece[5], reverse=True)
    used: list[int] = []
    tiles = []
    for number, (tensor, is_a), index, start, end, width in pieces:
        page, offset = place((end - start) * width, used, page_elements)
        tiles.append(Tile(number, tensor, is_a, index, start, end, width, page, offset))
    extras = plan_extras(spec, numbers, used, page_elements)
    return AdapterLayout(
        pages=len(used),
        tiles=tuple(tiles),
        modules=tuple((number, module.rank, module.scale) for number, module in modules),
        tile_rank=ranks_per_tile,
        extras=extras,
    )


_Piece = tuple[int, tuple[TensorRef, bool], int, int, int, int]


def _pieces(number: int, module: AdapterModule, ranks_per_tile: int) -> list[_Piece]:
    in_features, out_features = module.a.shape[1], module.b.shape[0]
    pieces: list[_Piece] = []
    for index, start in enumerate(range(0, module.rank, ranks_per_tile)):
        end = min(start + ranks_per_tile, module.rank)
        pieces.append((number, (module.a, True), index, start, end, in_features))
        pieces.append((number, (module.b, False), index, start, end, out_features))
    return pieces


def make_tables(
    layout: AdapterLayout,
    pages: Sequence[PageId],
    page_elements: int,
    modules: int,
) -> AdapterTables:
    """The tables of an adapter whose pages are `pages`, on the CPU."""
    is_a, module, index, page, offset = layout.places
    offsets = np.full((2, modules, layout.tiles_per_module), -1, dtype=np.int64)
    offsets[is_a, module, index] = np.array(pages)[page] * page_elements + offset
    number = [number for number, _, _ in layout.modules]
    ranks = np.zeros(modules, dtype=np.int32)
    ranks[number] = [rank for _, rank, _ in layout.modules]
    scales = np.zeros(modules, dtype=np.float32)
    scales[number] = [scale for _, _, scale in layout.modules]
    b_offsets, a_offsets = torch.from_numpy(offsets)
    extras = layout.extras
    return AdapterTables(
        a_offsets,
        b_offsets,
        torch.from_numpy(ranks),
        torch.from_numpy(scales),
        None if extras is None else resolve_extras(extras, pages, page_elements),
    )
