"""Shared blocks: found by key, counted by user, and gone in the right order."""

from collections import Counter

import pytest
import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from loraplex.engine.memory.pool import PageId, PagePool
from loraplex.engine.memory.prefix_cache import PrefixCache
from loraplex.engine.memory.value import ValueScale
from loraplex.engine.protocol.cache_keys import BlockKey

BLOCK_TOKENS = 16


def make(pages: int) -> tuple[PagePool, PrefixCache]:
    pool = PagePool(pages, 4, torch.float32, torch.device("cpu"))
    return pool, PrefixCache(pool, ValueScale())


def keys(text: str) -> list[BlockKey]:
    """One block a letter; a key names everything up to its letter."""
    return [BlockKey(text[: end + 1].encode()) for end in range(len(text))]


def run(pool: PagePool, cache: PrefixCache, text: str) -> list[PageId]:
    """A request that computes what is not cached and shares all of it; it still uses its pages."""
    pages = cache.match(keys(text))
    for key in keys(text)[len(pages) :]:
        (page,) = pool.take(1)
        assert cache.commit(key, page)
        pages.append(page)
    return pages


def evict_all(pool: PagePool, cache: PrefixCache, texts: list[str]) -> list[str]:
    """The blocks in the order in which they leave."""
    names = {key: key.decode() for text in texts for key in keys(text)}
    left = []
    while cache.evictable_pages:
        before = {key for key in names if cache.count_cached([key])}
        cache.evict(1)
        (gone,) = before - {key for key in names if cache.count_cached([key])}
        left.append(names[gone])
    return left


def test_a_prefix_is_found_as_far_as_it_is_cached() -> None:
    pool, cache = make(8)
    pages = run(pool, cache, "abc")
    assert cache.count_cached(keys("abd")) == 2
    assert cache.match(keys("abd")) == pages[:2]
    assert cache.match(keys("xbc")) == []


def test_blocks_stay_when_their_request_ends_and_tails_leave_first() -> None:
    pool, cache = make(8)
    cache.release(run(pool, cache, "abc"))
    assert (cache.cached_pages, cache.evictable_pages, pool.free_pages) == (3, 3, 5)
    assert evict_all(pool, cache, ["abc"]) == ["abc", "ab", "a"]
    assert pool.free_pages == 8


def test_of_blocks_used_as_often_the_least_recently_used_leave_first() -> None:
    pool, cache = make(8)
    for text in ("ab", "cd", "ef"):
        cache.release(run(pool, cache, text))
    for text in ("cd", "ab", "ef"):
        cache.release(run(pool, cache, text))
    assert evict_all(pool, cache, ["ab", "cd", "ef"]) == ["cd", "c", "ab", "a", "ef", "e"]


def test_what_many_use_outlives_a_flood_of_what_one_uses() -> None:
    """Plain LRU would lose a busy system prompt to one burst of long prompts."""
    pool, cache = make(8)
    for _ in range(4):
        cache.release(run(pool, cache, "ab"))
    for number in range(12):
        if not pool.free_pages:
            cache.evict(1)
        cache.release(run(pool, cache, chr(ord("m") + number)))
    assert cache.count_cached(keys("ab")) == 2


def test_fame_ends() -> None:
    pool, cache = make(8)
    for _ in range(100):
        cache.release(run(pool, cache, "ab"))
    for number in range(200):
        if not pool.free_pages:
            cache.evict(1)
        cache.release(run(pool, cache, chr(ord("m") + number)))
    assert cache.count_cached(keys("ab")) == 0


def test_the_second_of_two_equal_blocks_stays_its_requests_own() -> None:
    pool, cache = make(8)
    first = run(pool, cache, "a")
    (second,) = pool.take(1)
    assert not cache.commit(keys("a")[0], second)
    assert not cache.is_cached(second)
    cache.release([second])
    assert pool.free_pages == 7
    assert cache.match(keys("a")) == first


def test_an_undone_match_leaves_no_trace() -> None:
    pool, cache = make(8)
    cache.release(run(pool, cache, "ab"))
    for _ in range(1000):
        cache.unmatch(cache.match(keys("abc")))
    cache.release(run(pool, cache, "cd"))
    cache.release(run(pool, cache, "cd"))
    assert evict_all(pool, cache, ["ab", "cd"]) == ["ab", "a", "cd", "c"]


def test_what_became_invalid_is_found_by_nobody_and_goes_with_its_last_user() -> None:
    pool, cache = make(8)
    pages = run(pool, cache, "ab")
    assert cache.match(keys("ab")) == pages
    cache.invalidate(pages[1:])
    assert cache.count_cached(keys("ab")) == 1
    (again,) = pool.take(1)
    assert cache.commit(keys("ab")[1], again), "somebody computes it again"
    cache.release(pages)
    assert pool.free_pages == 5
    cache.release(pages)
    assert pool.free_pages == 6, "the bad page is free, not cached"
    assert cache.match(keys("ab")) == [pages[0], again]
    cache.release([pages[0], again])
    cache.release([again])
    cache.invalidate([again])
    assert pool.free_pages == 7, "nobody used it, so it is free at once"


def test_a_page_released_too_often_is_noticed() -> None:
    pool, cache = make(2)
    pages = run(pool, cache, "a")
    cache.release(pages)
    with pytest.raises(AssertionError, match="more often"):
        cache.release(pages)


class PrefixCacheMachine(RuleBasedStateMachine):
    """Requests with prompts over two letters come, compute, share and go in a pool of 10 pages."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.cache = make(10)
        self.requests: list[tuple[str, list[PageId]]] = []
        self.computed: dict[PageId, BlockKey] = {}
        self.has_orphans = False
        """Whether a block may be cached without a user of the block before it."""

    @rule(text=st.text("ab", min_size=1, max_size=5))
    def arrive(self, text: str) -> None:
        found = self.cache.count_cached(keys(text))
        pages = self.cache.match(keys(text))
        assert [self.computed[page] for page in pages] == keys(text)[:found]
        missing = len(text) - found
        if self.pool.free_pages + self.cache.evictable_pages < missing:
            self.cache.unmatch(pages)
            return
        while self.pool.free_pages < missing:
            self.evict()
        self.requests.append((text, pages + self.pool.take(missing)))

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), blocks=st.integers(1, 5))
    def compute(self, data: st.DataObject, blocks: int) -> None:
        text, pages = data.draw(st.sampled_from(self.requests))
        for key, page in zip(keys(text)[:blocks], pages, strict=False):
            if self.cache.is_cached(page):
                continue
            was_cached = self.cache.count_cached([key]) == 1
            assert self.cache.commit(key, page) is not was_cached
            assert self.cache.is_cached(page) is not was_cached
            self.has_orphans |= was_cached
            self.computed[page] = key

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """Ended or preempted, with all of it computed or not."""
        number = data.draw(st.integers(0, len(self.requests) - 1))
        self.cache.release(self.requests.pop(number)[1])

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        text, pages = data.draw(st.sampled_from(self.requests))
        self.cache.invalidate(pages)
        self.has_orphans = True
        for key, page in zip(keys(text), pages, strict=True):
            found = self.cache.match([key])
            assert page not in found
            self.cache.unmatch(found)

    @precondition(lambda self: self.cache.evictable_pages)
    @rule()
    def evict(self) -> None:
        before = set(self.cache.pages)
        self.cache.evict(1)
        (gone,) = before - set(self.cache.pages)
        assert gone not in {page for _, pages in self.requests for page in pages}
        key = self.computed[gone]
        longer = [BlockKey(key + letter) for letter in (b"a", b"b")]
        assert self.has_orphans or not any(self.cache.count_cached([key]) for key in longer)

    @invariant()
    def every_page_has_one_place_and_every_block_its_users(self) -> None:
        pages = [page for _, pages in self.requests for page in pages]
        self.cache.check(Counter(pages))
        own = [page for page in pages if not self.cache.is_cached(page)]
        self.pool.check([*own, *self.cache.pages])
        assert self.cache.evictable_pages == len(set(self.cache.pages) - set(pages))


TestPrefixCache = PrefixCacheMachine.TestCase
