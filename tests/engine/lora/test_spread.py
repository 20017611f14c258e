"""Matrices in rows over several pages are read as they were written, wherever the pages lie."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.lora.spread import SpreadLayout, plan_spread
from loraplex.engine.memory.pool import PageId

PAGE_ELEMENTS = 50
sizes = st.lists(st.tuples(st.integers(1, 40), st.integers(1, PAGE_ELEMENTS)), min_size=1)


def planned(shapes: list[tuple[int, int]]) -> tuple[list[SpreadLayout], list[int]]:
    used: list[int] = []
    return [plan_spread(rows, width, used, PAGE_ELEMENTS) for rows, width in shapes], used


@given(sizes)
def test_every_row_has_a_place_of_its_own(shapes: list[tuple[int, int]]) -> None:
    spreads, used = planned(shapes)
    taken = torch.zeros(len(used), PAGE_ELEMENTS, dtype=torch.int64)
    for spread in spreads:
        assert [block.start for block in spread.blocks[1:]] == [b.end for b in spread.blocks[:-1]]
        assert (spread.blocks[0].start, spread.blocks[-1].end) == (0, spread.rows)
        for block in spread.blocks:
            end = block.offset + (block.end - block.start) * spread.width
            assert end <= PAGE_ELEMENTS
            taken[block.page, block.offset : end] += 1
    assert int(taken.max()) == 1
    assert taken.sum(dim=1).tolist() == used


@given(sizes)
def test_what_was_written_is_read_in_blocks_and_by_number(shapes: list[tuple[int, int]]) -> None:
    spreads, used = planned(shapes)
    pages = [PageId(page) for page in torch.randperm(len(used) + 3)[: len(used)].tolist()]
    pool = torch.zeros(len(used) + 3, PAGE_ELEMENTS)
    for layout in spreads:
        matrix = torch.randn(layout.rows, layout.width)
        for block in layout.blocks:
            values = matrix[block.start : block.end].reshape(-1)
            pool[pages[block.page], block.offset : block.offset + len(values)] = values
        spread = layout.at(pages, PAGE_ELEMENTS)
        assert torch.equal(torch.cat([rows for _, _, rows in spread.blocks(pool)]), matrix)
        numbers = torch.randint(layout.rows, (7,))
        assert torch.equal(spread.take(pool, numbers), matrix[numbers])
