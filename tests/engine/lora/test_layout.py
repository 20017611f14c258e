"""Tiles fill pages without overlap, and an adapter costs what its true ranks cost."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.lora.layout import make_tables, plan_layout, tile_rank
from loraplex.engine.lora.modules import LINEARS
from loraplex.engine.memory.errors import PoolTooSmall
from loraplex.engine.memory.pool import PageId
from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, TensorRef
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.identity import Digest
from tests.engine.lora.files import BASE, NUMBERS, PAGE_ELEMENTS, TABLE, TILE_RANK


def adapter(ranks: dict[str, int], base: Digest = BASE) -> AdapterSpec:
    modules = []
    for path, rank in ranks.items():
        linear = TABLE.by_path()[path]
        a = TensorRef("a", "F32", (rank, linear.in_features), 0, 0)
        b = TensorRef("b", "F32", (linear.out_features, rank), 0, 0)
        modules.append(AdapterModule(path, linear.layer, linear.linear, rank, 0.5, a, b))
    return AdapterSpec(Digest("sha256:a"), base, Digest("sha256:w"), 1, tuple(modules))


RANKS = st.dictionaries(st.sampled_from(sorted(TABLE.by_path())), st.integers(1, 40), min_size=1)


@given(RANKS)
def test_tiles_cover_the_adapter_and_nothing_twice(ranks: dict[str, int]) -> None:
    spec = adapter(ranks)
    layout = plan_layout(spec, NUMBERS, PAGE_ELEMENTS, TILE_RANK)
    used: set[tuple[int, int]] = set()
    for tile in layout.tiles:
        assert 0 < tile.end - tile.start <= TILE_RANK
        places = range(tile.offset, tile.offset + (tile.end - tile.start) * tile.width)
        assert places.stop <= PAGE_ELEMENTS, "a tile never crosses a page"
        taken = {(tile.page, place) for place in places}
        assert not taken & used
        used |= taken
    assert len(used) == spec.parameters, "true ranks, no padding"
    assert {page for page, _ in used} == set(range(layout.pages))


@given(RANKS)
def test_no_two_neighbouring_pages_would_fit_into_one(ranks: dict[str, int]) -> None:
    layout = plan_layout(adapter(ranks), NUMBERS, PAGE_ELEMENTS, TILE_RANK)
    filled = [0] * layout.pages
    for tile in layout.tiles:
        filled[tile.page] += (tile.end - tile.start) * tile.width
    for one, other in pairwise(filled):
        assert one + other > PAGE_ELEMENTS


@given(RANKS)
def test_tables_point_at_every_tile_and_at_nothing_else(ranks: dict[str, int]) -> None:
    layout = plan_layout(adapter(ranks), NUMBERS, PAGE_ELEMENTS, TILE_RANK)
    pages = [PageId(7 + 3 * page) for page in range(layout.pages)]
    tables = make_tables(layout, pages, PAGE_ELEMENTS, NUMBERS.count)
    for path, linear in TABLE.by_path().items():
        number = linear.layer * len(LINEARS) + LINEARS.index(linear.linear)
        rank = ranks.get(path, 0)
        assert int(tables.ranks[number]) == rank
        assert float(tables.scales[number]) == (0.5 if rank else 0.0)
        for offsets in (tables.a_offsets, tables.b_offsets):
            assert int((offsets[number] >= 0).sum()) == -(-rank // TILE_RANK)
    present = [int(o) for t in (tables.a_offsets, tables.b_offsets) for o in t.flatten() if o >= 0]
    assert len(set(present)) == len(layout.tiles)


def test_an_adapter_of_another_base_is_refused() -> None:
    spec = adapter({"model.layers.0.q_proj": 4}, base=Digest("sha256:other"))
    with pytest.raises(AdapterUnavailable, match="another base"):
        plan_layout(spec, NUMBERS, PAGE_ELEMENTS, TILE_RANK)


def test_tiles_shrink_until_the_widest_fits_a_page() -> None:
    assert tile_rank(page_elements=16 * 100, widest=100) == 16
    assert tile_rank(page_elements=16 * 100 - 1, widest=100) == 8
    assert tile_rank(page_elements=100, widest=100) == 1
    with pytest.raises(PoolTooSmall):
        tile_rank(page_elements=99, widest=100)
