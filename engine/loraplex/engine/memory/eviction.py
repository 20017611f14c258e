"""One byte budget for cached blocks and adapters: who leaves when a page is needed."""

from collections import Counter
from collections.abc import Callable, Iterable

from loraplex.engine.memory.pool import PageId, PagePool
from loraplex.engine.memory.prefix_cache import PrefixCache
from loraplex.engine.memory.residency import AdapterResidency
from loraplex.engine.memory.usage import AdapterKey


class PageBudget:
    """A page is free, a request's own, a cached block, or an adapter's; `check` proves it.

    Cached blocks that nobody uses and idle adapters leave in the order of their value.
    """

    def __init__(self, pool: PagePool, blocks: PrefixCache, adapters: AdapterResidency) -> None:
        self._pool = pool
        self._blocks = blocks
        self._adapters = adapters

    def make_room(self, pages: int, may_evict_adapter: Callable[[AdapterKey], bool]) -> bool:
        """Evict the least valuable until `pages` are free.

        Evicts nothing and answers False where even everything evictable would not be enough.
        `may_evict_adapter` spares adapters for reasons of the caller's.
        """
        missing = pages - self._pool.free_pages
        if missing <= 0:
            return True
        missing_beside_blocks = missing - self._blocks.evictable_pages
        if missing_beside_blocks > 0 and not self._adapters_hold(
            missing_beside_blocks, may_evict_adapter
        ):
            return False
        for adapter in self._adapters.idle_by_value(may_evict_adapter):
            self._blocks.evict(pages - self._pool.free_pages, adapter.value)
            if self._pool.free_pages >= pages:
                return True
            self._adapters.evict(adapter)
        self._blocks.evict(pages - self._pool.free_pages)
        return True

    def _adapters_hold(self, pages: int, may_evict: Callable[[AdapterKey], bool]) -> bool:
        if self._adapters.idle_pages < pages:
            return False
        return any(
            (pages := pages - len(entry.pages)) <= 0
            for entry in self._adapters.idle_by_value(may_evict)
        )

    def check(self, request_pages: Iterable[PageId], adapter_users: Iterable[AdapterKey]) -> None:
        """Assert that every page of the pool has exactly one place, and every count agrees.

        `request_pages` are the pages of all requests, a shared block named once by each of its
        users; `adapter_users` the adapter of each request that uses one.
        """
        references = Counter(request_pages)
        own = [page for page in references.elements() if not self._blocks.is_cached(page)]
        self._blocks.check(references)
        self._adapters.check(Counter(adapter_users))
        adapter_pages = [page for e in self._adapters.entries.values() for page in e.pages]
        self._pool.check([*own, *self._blocks.pages, *adapter_pages])
