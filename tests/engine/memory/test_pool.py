"""Every page has one place: free, or with exactly one owner."""

import psutil
import pytest
import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from loraplex.engine.memory.errors import PoolTooSmall
from loraplex.engine.memory.geometry import fit_pages
from loraplex.engine.memory.pool import PageId, PagePool

CPU = torch.device("cpu")


class PagePoolMachine(RuleBasedStateMachine):
    """Owners take and give back; the pool's sum stays what it is."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(8, 4, torch.float32, CPU)
        self.owners: list[list[PageId]] = []

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, self.pool.free_pages))
        self.owners.append(self.pool.take(count))

    @precondition(lambda self: self.owners)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        owner = data.draw(st.integers(0, len(self.owners) - 1))
        self.pool.give_back(self.owners.pop(owner))

    @invariant()
    def every_page_has_one_place(self) -> None:
        self.pool.check(page for owner in self.owners for page in owner)
        assert self.pool.free_pages + sum(map(len, self.owners)) == 8


TestPagePool = PagePoolMachine.TestCase


def test_a_page_given_back_twice_is_noticed() -> None:
    pool = PagePool(2, 4, torch.float32, CPU)
    pages = pool.take(1)
    pool.give_back(pages)
    with pytest.raises(AssertionError, match="twice"):
        pool.give_back(pages)


def test_a_lost_page_is_noticed() -> None:
    pool = PagePool(2, 4, torch.float32, CPU)
    pool.take(1)
    with pytest.raises(AssertionError, match="each once"):
        pool.check([])


def test_cleared_pages_bring_nothing_of_their_last_owner_along() -> None:
    pool = PagePool(3, 4, torch.float32, CPU)
    pages = pool.take(2)
    pool.data[pages] = float("nan")
    pool.give_back(pages)
    again = pool.take(3)
    pool.clear(again)
    assert not pool.data[again].any()


def test_memory_is_touched_only_where_it_is_used() -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    pool = PagePool(1024, 2**18, torch.float32, CPU)
    pool.clear(pool.take(8))
    grown = process.memory_info().rss - before
    assert 8 * 2**20 <= grown < 64 * 2**20, "of a pool of 1 GiB"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_budget_buys_whole_pages(dtype: torch.dtype) -> None:
    sizes = {"layers": 3, "block_tokens": 16, "kv_heads": 2, "head_size": 8}
    page_bytes = 3 * 16 * 2 * 2 * 8 * dtype.itemsize
    geometry = fit_pages(10 * page_bytes + 1, dtype=dtype, **sizes)
    assert geometry.pages == 10
    assert geometry.pool_tokens == 160
    assert [geometry.blocks_of(tokens) for tokens in (0, 1, 16, 17)] == [0, 1, 1, 2]
    pool = PagePool(geometry.pages, geometry.page_elements, dtype, CPU)
    assert pool.data.nbytes == 10 * page_bytes
    with pytest.raises(PoolTooSmall) as refused:
        fit_pages(2 * page_bytes - 1, dtype=dtype, **sizes)
    assert str(2 * page_bytes) in str(refused.value.rule)
