"""Which adapters stay: those that are used often and take long to have again."""

from collections import OrderedDict

import numpy as np
import pytest

from tests.engine.memory.adapters import Memory, adapter_key, anything


def zipf_trace(adapters: int, requests: int) -> list[str]:
    weights = 1 / np.arange(1, adapters + 1)
    chosen = np.random.default_rng(5).choice(adapters, requests, p=weights / weights.sum())
    return [str(adapter) for adapter in chosen]


def lru_hits(trace: list[str], room: int) -> int:
    resident: OrderedDict[str, None] = OrderedDict()
    hits = 0
    for name in trace:
        hits += name in resident
        resident[name] = None
        resident.move_to_end(name)
        if len(resident) > room:
            resident.popitem(last=False)
    return hits


def test_popular_adapters_stay_resident_among_2000() -> None:
    """Zipf popularity, room for 64: many fewer loads than least recently used would need."""
    memory, trace = Memory(64), zipf_trace(2000, 8000)
    hits = sum(memory.use(name) for name in trace)
    assert hits > 1.15 * lru_hits(trace, 64)
    assert memory.adapters.loads == len(trace) - hits
    assert memory.adapters.evictions == memory.adapters.loads - 64
    memory.budget.check([], [])


def test_uses_survive_an_eviction() -> None:
    memory = Memory(2)
    for _ in range(9):
        memory.use("popular")
    assert memory.budget.make_room(2, anything)
    memory.use("popular")
    memory.use("rare")
    memory.use("new")
    assert memory.has_adapter("popular")
    assert memory.adapters.loads_of(adapter_key("popular")) == 2


def test_an_adapter_that_takes_longer_to_have_again_stays_longer() -> None:
    memory = Memory(2)
    memory.use("quick", seconds=1.0)
    memory.use("slow", seconds=3.0)
    memory.use("quick")
    memory.use("new", seconds=1.5)
    assert [memory.has_adapter(name) for name in ("quick", "slow")] == [False, True]


def test_one_load_that_hung_does_not_make_an_adapter_precious() -> None:
    memory = Memory(4)
    memory.use("usual")
    memory.use("hung", seconds=1000.0)
    for number in range(20):
        memory.use(f"{number}")
    assert not memory.has_adapter("hung")


def test_of_adapters_used_alike_the_least_recently_used_leaves_first() -> None:
    memory = Memory(3)
    for name in ("a", "b", "c", "b", "a", "c"):
        memory.use(name)
    memory.use("d")
    assert [memory.has_adapter(name) for name in "abc"] == [True, False, True]


def test_fame_fades_while_others_are_used() -> None:
    memory = Memory(3)
    for _ in range(100):
        memory.use("former")
    former = memory.adapters.get(adapter_key("former"))
    assert former is not None
    before = former.value
    for _ in range(4096):
        memory.use("present")
    assert former.value == pytest.approx(before / 2, rel=0.01)


def test_a_pinned_adapter_stays_until_it_is_unpinned() -> None:
    memory = Memory(4)
    memory.adapters.pin(adapter_key("a"))
    memory.adapters.pin(adapter_key("a"))
    memory.load("a", 3)
    assert not memory.budget.make_room(2, anything)
    assert memory.has_adapter("a")
    memory.budget.check([], [])
    memory.adapters.unpin(adapter_key("a"))
    memory.adapters.unpin(adapter_key("a"))
    assert memory.budget.make_room(2, anything)
    assert not memory.has_adapter("a")


def test_an_idle_adapter_can_be_pinned_and_a_used_one_unpinned() -> None:
    memory = Memory(4)
    entry = memory.load("a", 3)
    memory.adapters.pin(entry.key)
    memory.adapters.acquire(entry)
    memory.adapters.unpin(entry.key)
    assert not memory.budget.make_room(2, anything)
    memory.adapters.release(entry)
    assert memory.budget.make_room(2, anything)


def test_a_failed_load_frees_all_it_had() -> None:
    memory = Memory(4)
    entry = memory.reserve("a", 3)
    assert (memory.adapters.resident_adapters, memory.adapters.loads_in_flight) == (0, 1)
    assert not memory.budget.make_room(2, anything), "a load keeps its pages"
    memory.adapters.finish_load(entry.key, has_failed=True)
    assert memory.pool.free_pages == 4
    assert memory.adapters.loads_of(entry.key) == 0
    memory.budget.check([], [])


def test_an_adapter_in_use_is_never_evicted() -> None:
    memory = Memory(4)
    entry = memory.load("a", 3)
    memory.adapters.acquire(entry)
    with pytest.raises(AssertionError, match="never evicted"):
        memory.adapters.evict(entry)
