"""Host memory for packed adapters: which of its pages hold which adapter, and who makes room.

An adapter lies here as it lies in the engine's pages, so one that comes back is copied and neither
read, hashed nor packed again. The tenant is part of an adapter's key, so that nobody learns from
timing what another tenant loaded, and nobody fills the tier against the others: beyond a share of
it a tenant makes room for others first.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from loraplex.engine.memory.residency import AdapterKey
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.workers import Tier, TierLoad

TENANT_SHARE: Final = 0.5
"""Of the tier: what a tenant has beyond it goes first where somebody needs room."""

ImageKey = tuple[AdapterKey, int]
"""With the number of the first page: an adapter larger than the tier goes through it in parts."""


class HostImage:
    """Host pages; `is_packed` where they hold what they were borrowed for."""

    def __init__(self, pages: list[int]) -> None:
        self.pages = pages
        self.is_packed = False
        self.is_awaited = False
        """Whether the load it was packed for is still to come: that one has missed already."""


class HostTier:
    """Bookkeeping of `pages` host pages. May be called from many threads."""

    def __init__(self, pages: int, page_bytes: int) -> None:
        self.pages = pages
        self._page_bytes = page_bytes
        self._share_pages = int(pages * TENANT_SHARE)
        self._free: list[int] = []
        """Pages given back. Those never used come after them, so that memory is touched late."""
        self._unused = iter(range(pages))
        self._free_pages = pages
        self._kept: OrderedDict[ImageKey, HostImage] = OrderedDict()
        """Those used longest ago first."""
        self._kept_pages: Counter[TenantNamespace] = Counter()
        self._borrowed: set[ImageKey] = set()
        self._changed = threading.Condition()
        self._hits = self._misses = self._joins = self._evictions = 0

    @contextmanager
    def borrow(self, key: ImageKey, pages: int) -> Iterator[HostImage]:
        """An image nobody else touches meanwhile; waits while others borrow it, or too many pages.

        It is kept where it was packed and nothing was raised.
        """
        assert pages <= self.pages
        image = self._take(key, pages)
        has_failed = True
        try:
            yield image
            has_failed = not image.is_packed
        finally:
            with self._changed:
                self._borrowed.remove(key)
                if has_failed:
                    self._give_back(image)
                else:
                    self._keep(key, image)
                self._changed.notify_all()

    @contextmanager
    def borrow_packed(self, key: ImageKey) -> Iterator[HostImage | None]:
        """An image that lies here packed, without waiting; None where none does."""
        with self._changed:
            image = self._kept.get(key)
            if image is not None:
                self._drop(key)
                self._borrowed.add(key)
                self._count_hit(image)
        try:
            yield image
        finally:
            if image is not None:
                with self._changed:
                    self._borrowed.remove(key)
                    self._keep(key, image)
                    self._changed.notify_all()

    def holds(self, key: AdapterKey) -> bool:
        """Whether the adapter is here, or on its way here."""
        with self._changed:
            return (key, 0) in self._kept or (key, 0) in self._borrowed

    def load(self) -> TierLoad:
        with self._changed:
            return TierLoad(
                tier=Tier.HOST,
                hits=self._hits,
                misses=self._misses,
                bytes=self._kept_pages.total() * self._page_bytes,
                budget_bytes=self.pages * self._page_bytes,
                evictions=self._evictions,
                joins=self._joins,
            )

    def _take(self, key: ImageKey, pages: int) -> HostImage:
        with self._changed:
            if key in self._borrowed:
                self._joins += 1
                self._changed.wait_for(lambda: key not in self._borrowed)
            self._borrowed.add(key)
            if key in self._kept:
                image = self._drop(key)
                self._count_hit(image)
                return image
            self._misses += 1
            self._changed.wait_for(lambda: self._make_room(key[0][0], pages))
            self._free_pages -= pages
            return HostImage(
                [self._free.pop() if self._free else next(self._unused) for _ in range(pages)]
            )

    def _count_hit(self, image: HostImage) -> None:
        self._hits += not image.is_awaited
        image.is_awaited = False

    def _make_room(self, namespace: TenantNamespace, pages: int) -> bool:
        while self._free_pages < pages and self._kept:
            self._give_back(self._drop(self._victim(namespace, pages)))
            self._evictions += 1
        return self._free_pages >= pages

    def _victim(self, namespace: TenantNamespace, pages: int) -> ImageKey:
        """Used longest ago, of the tenants beyond their share where there are any."""
        wanted = self._kept_pages + Counter({namespace: pages})
        greedy = {name for name, count in wanted.items() if count > self._share_pages}
        oldest = next((key for key in self._kept if key[0][0] in greedy), None)
        return oldest or next(iter(self._kept))

    def _give_back(self, image: HostImage) -> None:
        self._free += image.pages
        self._free_pages += len(image.pages)

    def _keep(self, key: ImageKey, image: HostImage) -> None:
        self._kept[key] = image
        self._kept_pages[key[0][0]] += len(image.pages)

    def _drop(self, key: ImageKey) -> HostImage:
        image = self._kept.pop(key)
        self._kept_pages[key[0][0]] -= len(image.pages)
        return image
