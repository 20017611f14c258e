"""One budget: what is worth least leaves, all or nothing, and nothing in use."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from loraplex.engine.memory.pool import PageId
from loraplex.engine.memory.residency import ResidentAdapter
from loraplex.engine.memory.usage import AdapterKey
from loraplex.engine.protocol.cache_keys import BlockKey
from tests.engine.memory.adapters import Memory, adapter_key, anything


def test_cached_blocks_and_adapters_make_room_for_each_other() -> None:
    memory = Memory(6)
    memory.cache("abcdef")
    memory.load("adapter", 4)
    assert memory.blocks.cached_pages == 2
    memory.cache("ghijkl")
    assert not memory.has_adapter("adapter")
    memory.budget.check([], [])


@pytest.mark.parametrize(("load_seconds", "stays"), [(2.0, False), (16.0, True)])
def test_what_takes_longer_to_have_again_stays(load_seconds: float, stays: bool) -> None:
    """4 pages cost `load_seconds` to load and 4 seconds to compute."""
    memory = Memory(8, block_seconds=1.0)
    memory.use("adapter", 4, load_seconds)
    memory.cache("abcd")
    assert memory.budget.make_room(4, anything)
    assert memory.has_adapter("adapter") is stays
    assert memory.blocks.cached_pages == (0 if stays else 4)


def test_a_large_adapter_is_worth_less_than_a_small_one_that_costs_as_much() -> None:
    memory = Memory(6)
    memory.use("large", 4, 4.0)
    memory.use("small", 2, 4.0)
    memory.use("large")
    memory.use("small")
    assert memory.budget.make_room(1, anything)
    assert [memory.has_adapter(name) for name in ("large", "small")] == [False, True]


def test_a_block_that_many_used_outlives_an_adapter_that_one_used() -> None:
    memory = Memory(3)
    memory.cache("a", uses=4)
    memory.use("adapter", 2)
    assert memory.budget.make_room(1, anything)
    assert memory.has_block("a")
    assert not memory.has_adapter("adapter")


def test_dearer_blocks_are_what_steps_measured() -> None:
    """A machine that computes slowly keeps blocks; one that computes fast keeps adapters."""
    stays = {}
    for step_seconds in (4.0, 400.0):
        memory = Memory(8, block_seconds=1.0)
        for _ in range(50):
            memory.scale.record_step(8.0, step_seconds)
            memory.scale.record_step(1.0, 1000.0)
        memory.use("adapter", 4, 4.0)
        memory.cache("abcd")
        assert memory.budget.make_room(4, anything)
        stays[step_seconds] = memory.has_adapter("adapter")
    assert stays == {4.0: True, 400.0: False}


def test_nothing_leaves_where_it_would_not_be_enough() -> None:
    memory = Memory(8)
    memory.cache("abc")
    memory.load("idle", 2)
    memory.adapters.acquire(memory.load("used", 3))
    assert not memory.budget.make_room(6, anything)
    assert memory.blocks.cached_pages == 3
    assert memory.has_adapter("idle")
    assert memory.budget.make_room(5, anything)


def test_adapters_that_the_caller_spares_stay_whatever_they_are_worth() -> None:
    memory = Memory(8)
    memory.load("spared", 4, 0.1)
    memory.load("other", 4, 8.0)
    spared = adapter_key("spared")
    assert not memory.budget.make_room(5, lambda key: key != spared)
    assert memory.has_adapter("other")
    assert memory.budget.make_room(4, lambda key: key != spared)
    assert memory.has_adapter("spared")


def test_no_more_leaves_than_is_needed() -> None:
    memory = Memory(8)
    memory.cache("abcdefgh")
    assert memory.budget.make_room(3, anything)
    assert memory.blocks.cached_pages == 5
    assert memory.budget.make_room(3, anything)
    assert memory.blocks.cached_pages == 5


def test_check_notices_a_request_that_was_not_named() -> None:
    memory = Memory(4)
    entry = memory.load("a", 1)
    memory.adapters.acquire(entry)
    own, shared = memory.pool.take(2)
    assert memory.blocks.commit(BlockKey(b"x"), shared)
    memory.budget.check([own, shared], [entry.key])
    for pages, users in (
        ([shared], [entry.key]),
        ([own], [entry.key]),
        ([own, shared, shared], [entry.key]),
        ([own, own, shared], [entry.key]),
        ([own, shared], []),
        ([own, shared], [entry.key, entry.key]),
    ):
        with pytest.raises(AssertionError):
            memory.budget.check(pages, users)


SIZES = {"a": 1, "b": 1, "c": 2, "d": 3, "e": 5}
"""Pages by adapter."""


class MemoryMachine(RuleBasedStateMachine):
    """Everything that owns pages, in a pool of 12, in which not half of it fits."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory(12)
        self.requests: list[tuple[list[BlockKey], list[PageId], ResidentAdapter | None]] = []
        self.pinned: set[AdapterKey] = set()

    def idle(self) -> list[ResidentAdapter]:
        return [
            entry
            for entry in self.memory.adapters.entries.values()
            if not (entry.users or entry.is_loading or entry.key in self.pinned)
        ]

    def make_room(self, pages: int, spared: set[AdapterKey]) -> bool:
        """Compared with what could leave, and with what is worth less than what left."""
        memory = self.memory
        idle = [entry for entry in self.idle() if entry.key not in spared]
        used = {page for _, pages, _ in self.requests for page in pages}
        blocks = set(memory.blocks.pages) - used
        room = memory.pool.free_pages + len(blocks) + sum(len(entry.pages) for entry in idle)
        before = set(memory.blocks.pages), dict(memory.adapters.entries)
        has_room = memory.budget.make_room(pages, lambda key: key not in spared)
        after = set(memory.blocks.pages), dict(memory.adapters.entries)
        assert has_room == (room >= pages)
        if not has_room:
            assert before == after
            return False
        assert memory.pool.free_pages >= pages
        assert before[0] - after[0] <= blocks
        left = [entry for entry in before[1].values() if entry.key not in after[1]]
        assert {entry.key for entry in left} <= {entry.key for entry in idle}
        staying = [entry.value for entry in idle if entry not in left]
        if first := memory.blocks._first():
            staying.append(first.value)
        assert max([e.value for e in left], default=0) <= min(staying, default=float("inf"))
        return True

    @rule(name=st.sampled_from(sorted(SIZES)), spared=st.sets(st.sampled_from(sorted(SIZES))))
    def begin_load(self, name: str, spared: set[str]) -> None:
        if self.memory.has_adapter(name):
            return
        if self.make_room(SIZES[name], {adapter_key(other) for other in spared}):
            self.memory.reserve(name, SIZES[name])

    @precondition(lambda self: self.memory.adapters.loads_in_flight)
    @rule(data=st.data(), seconds=st.integers(1, 8), has_failed=st.booleans())
    def end_load(self, data: st.DataObject, seconds: int, has_failed: bool) -> None:
        loading = [e.key for e in self.memory.adapters.entries.values() if e.is_loading]
        self.memory.now += seconds
        key = data.draw(st.sampled_from(loading))
        self.memory.adapters.finish_load(key, has_failed=has_failed)

    @rule(text=st.text("xy", max_size=4), name=st.none() | st.sampled_from(sorted(SIZES)))
    def start(self, text: str, name: str | None) -> None:
        memory = self.memory
        adapter = None
        if name is not None:
            adapter = memory.adapters.get(adapter_key(name))
            if adapter is None or adapter.is_loading:
                return
        keys = [BlockKey(f"{name} {text[: end + 1]}".encode()) for end in range(len(text))]
        pages = memory.blocks.match(keys)
        self.requests.append((keys, pages, None))
        spared = set() if adapter is None else {adapter.key}
        has_room = self.make_room(len(keys) + 1 - len(pages), spared)
        self.requests.pop()
        if not has_room:
            memory.blocks.unmatch(pages)
            return
        if adapter is not None:
            memory.adapters.acquire(adapter)
        pages += memory.pool.take(len(keys) + 1 - len(pages))
        self.requests.append((keys, pages, adapter))

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def compute(self, data: st.DataObject) -> None:
        keys, pages, _ = data.draw(st.sampled_from(self.requests))
        for key, page in zip(keys, pages, strict=False):
            if not self.memory.blocks.is_cached(page):
                self.memory.blocks.commit(key, page)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        _, pages, adapter = self.requests.pop(data.draw(st.integers(0, len(self.requests) - 1)))
        self.memory.blocks.release(pages)
        if adapter is not None:
            self.memory.adapters.release(adapter)

    @rule(name=st.sampled_from(sorted(SIZES)))
    def pin(self, name: str) -> None:
        if len(self.pinned) < 2:
            self.memory.adapters.pin(adapter_key(name))
            self.pinned.add(adapter_key(name))

    @rule(name=st.sampled_from(sorted(SIZES)))
    def unpin(self, name: str) -> None:
        self.memory.adapters.unpin(adapter_key(name))
        self.pinned.discard(adapter_key(name))

    @invariant()
    def every_page_has_one_place_and_every_count_agrees(self) -> None:
        self.memory.budget.check(
            (page for _, pages, _ in self.requests for page in pages),
            (adapter.key for _, _, adapter in self.requests if adapter is not None),
        )

    @invariant()
    def the_pool_is_the_sum_of_its_owners(self) -> None:
        memory = self.memory
        used = {page for _, pages, _ in self.requests for page in pages}
        assert memory.pool.pages == (
            memory.pool.free_pages
            + len(used)
            + memory.blocks.evictable_pages
            + memory.adapters.resident_pages
        )

    def teardown(self) -> None:
        """Once everybody has left, every page can be had again."""
        memory = self.memory
        for entry in list(memory.adapters.entries.values()):
            if entry.is_loading:
                memory.adapters.finish_load(entry.key, has_failed=False)
        for key in self.pinned:
            memory.adapters.unpin(key)
        for _, pages, adapter in self.requests:
            memory.blocks.release(pages)
            if adapter is not None:
                memory.adapters.release(adapter)
        assert memory.budget.make_room(12, anything)
        memory.budget.check([], [])


TestMemory = MemoryMachine.TestCase
