"""Whose pages may be taken for whom: cached blocks and idle adapters, spared as far as possible."""

from collections import Counter

from loraplex.engine.memory.eviction import PageBudget
from loraplex.engine.memory.pool import PagePool
from loraplex.engine.memory.prefix_cache import PrefixCache
from loraplex.engine.memory.residency import AdapterKey, AdapterResidency
from loraplex.engine.request import Request


class Room:
    """Knows which adapters waiting requests want, and so what an eviction would cost."""

    def __init__(
        self, pool: PagePool, blocks: PrefixCache, adapters: AdapterResidency, budget: PageBudget
    ) -> None:
        self._pool = pool
        self._blocks = blocks
        self._adapters = adapters
        self._budget = budget
        self._wanted: Counter[AdapterKey] = Counter()
        self._unserved: set[AdapterKey] = set()
        """Loaded for somebody who waits, and not used yet."""

    @property
    def available_pages(self) -> int:
        """Free, or could be without preempting anybody."""
        return self._pool.free_pages + self._blocks.evictable_pages + self._adapters.idle_pages

    def want(self, request: Request) -> None:
        if request.adapter_key is not None:
            self._wanted[request.adapter_key] += 1

    def no_longer_want(self, request: Request) -> None:
        key = request.adapter_key
        if key is None:
            return
        self._wanted[key] -= 1
        if self._wanted[key] == 0:
            del self._wanted[key]
            self._unserved.discard(key)

    def arrived(self, key: AdapterKey) -> None:
        """An adapter was loaded: it stays until somebody who waits for it has used it."""
        self._unserved.add(key)

    def served(self, key: AdapterKey) -> None:
        self._unserved.discard(key)

    def for_growth(self, pages: int) -> bool:
        """For a running request: whatever is idle goes before anybody is preempted."""
        if pages <= self._pool.free_pages:
            return True
        evictable = (self._is_unwanted, self._has_served, _anything)
        return any(self._budget.make_room(pages, may_evict) for may_evict in evictable)

    def for_start(self, pages: int, key: AdapterKey | None, *, alone: bool) -> bool:
        """For a request that would start with this adapter; `alone` where nothing else runs."""
        if pages <= self._pool.free_pages:
            return True
        if self._budget.make_room(pages, self._is_unwanted):
            return True
        # Others' adapters wait for their turn. With nobody running no turn would ever come.
        return alone and self._budget.make_room(pages, lambda other: other != key)

    def for_load(self, pages: int, *, overdue: bool) -> bool:
        """For an adapter; one that has waited too long may take those of others who wait."""
        may_evict = self._has_served if overdue else self._is_unwanted
        return self._budget.make_room(pages, may_evict)

    def evict_everything(self) -> int:
        """Empty what is idle; how many pages that gave."""
        pages = self.available_pages
        gained = pages - self._pool.free_pages
        self._budget.make_room(pages, _anything)
        return gained

    def _is_unwanted(self, key: AdapterKey) -> bool:
        return key not in self._wanted

    def _has_served(self, key: AdapterKey) -> bool:
        # Otherwise two adapters could replace each other forever without serving anybody.
        return key not in self._wanted or key not in self._unserved


def _anything(_: AdapterKey) -> bool:
    return True
