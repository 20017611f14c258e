"""Brings packed adapters into a pool's pages, through a tier of host memory where there is one."""

from collections.abc import Sequence
from typing import Final, Protocol

import torch
from torch import Tensor

from loraplex.engine.kernels.huge_pages import huge
from loraplex.engine.lora.copies import CopyStream, Fence, MemoryCopies, PageCopies
from loraplex.engine.lora.host_tier import HostTier
from loraplex.engine.memory.pool import PageId
from loraplex.engine.memory.residency import AdapterKey
from loraplex.engine.protocol.workers import TierLoad

COMING_ADAPTERS: Final = 8
"""Adapters that are packed while they come: together they hold half of the host memory at most."""


class Packable(Protocol):
    """An adapter whose packed bytes can be had; AdapterFile is one."""

    def pack(self, places: Sequence[Tensor], first_page: int = 0) -> None:
        """Fill `places`, its pages from `first_page` on. Raises AdapterUnavailable."""
        ...


class PageWriter(Protocol):
    """Fills an adapter's pages, beside the steps."""

    def fence(self) -> Fence | None:
        """Called on the engine's thread: the end of every step submitted so far.

        A page just freed may still be read by a step on its way.
        """
        ...

    def write(
        self, key: AdapterKey, adapter: Packable, pages: Sequence[PageId], after: Fence | None
    ) -> None:
        """Called on a loader thread; returns when steps submitted from now on may read the pages.

        Nothing is written before `after`, nor once it has returned or raised. Raises
        AdapterUnavailable.
        """
        ...

    def write_at_once(self, key: AdapterKey, pages: Sequence[PageId]) -> bool:
        """Called on the engine's thread, between two steps: write what takes but a moment.

        False, and nothing is written, where it is not packed in host memory.
        """
        ...

    def may_wait_for(self, pages: int) -> bool:
        """Whether there is host memory to hold so many pages for an adapter that comes slowly."""
        ...

    def keep(self, key: AdapterKey, adapter: Packable, pages: int) -> None:
        """Pack an adapter of so many pages for later; nothing where there is no room for all of it.

        Raises AdapterUnavailable.
        """
        ...

    def holds(self, key: AdapterKey) -> bool:
        """Whether the adapter can be written without its file."""
        ...

    def load(self) -> TierLoad | None:
        """What the host tier has done, where there is one."""
        ...


def page_writer(pool_data: Tensor, host_bytes: int = 0) -> PageWriter:
    """The way into a pool on this device, through so much host memory."""
    is_cuda = pool_data.device.type == "cuda"
    page_bytes = pool_data.shape[1] * pool_data.itemsize
    if is_cuda:
        # torch's allocator of pinned memory rounds up to a power of two, so the tier does, too.
        host_bytes = 1 << max(0, host_bytes - 1).bit_length()
    host_pages = host_bytes // page_bytes
    if is_cuda:
        shape = max(1, host_pages), pool_data.shape[1]
        host_data = torch.empty(shape, dtype=pool_data.dtype, pin_memory=True)
        return StagedWriter(pool_data, host_data, CopyStream(pool_data.device))
    if not host_pages:
        return DirectWriter(pool_data)
    host_data = huge(host_pages * pool_data.shape[1], pool_data.dtype)
    return StagedWriter(pool_data, host_data.view(host_pages, -1), MemoryCopies())


class DirectWriter:
    """Packs straight into the pool: on a CPU a step submitted is a step computed."""

    def __init__(self, pool_data: Tensor) -> None:
        self._pool_data = pool_data

    def fence(self) -> None:
        return None

    def write(
        self, key: AdapterKey, adapter: Packable, pages: Sequence[PageId], after: Fence | None
    ) -> None:
        adapter.pack([self._pool_data[page] for page in pages])

    def write_at_once(self, key: AdapterKey, pages: Sequence[PageId]) -> bool:
        return False

    def may_wait_for(self, pages: int) -> bool:
        return False

    def keep(self, key: AdapterKey, adapter: Packable, pages: int) -> None:
        pass

    def holds(self, key: AdapterKey) -> bool:
        return False

    def load(self) -> None:
        return None


class StagedWriter:
    """Packs into host pages and copies those.

    Packed adapters stay in the host pages. An adapter larger than all of them goes through them in
    parts.
    """

    def __init__(self, pool_data: Tensor, host_data: Tensor, copies: PageCopies) -> None:
        self._pool_data = pool_data
        self._host_data = host_data
        self._copies = copies
        self._tier = HostTier(len(host_data), host_data.shape[1] * host_data.itemsize)

    def fence(self) -> Fence | None:
        return self._copies.fence()

    def write(
        self, key: AdapterKey, adapter: Packable, pages: Sequence[PageId], after: Fence | None
    ) -> None:
        capacity = len(self._host_data)
        for first in range(0, len(pages), capacity):
            targets = [self._pool_data[page] for page in pages[first : first + capacity]]
            with self._tier.borrow((key, first), len(targets)) as image:
                sources = [self._host_data[page] for page in image.pages]
                if not image.is_packed:
                    adapter.pack(sources, first)
                    image.is_packed = True
                self._copies.copy(sources, targets, after)

    def write_at_once(self, key: AdapterKey, pages: Sequence[PageId]) -> bool:
        if not self._copies.are_at_once:
            return False
        with self._tier.borrow_packed((key, 0)) as image:
            if image is None or len(image.pages) < len(pages):
                return False
            with torch.inference_mode():
                for source, target in zip(image.pages, pages, strict=True):
                    self._pool_data[target].copy_(self._host_data[source])
        return True

    def may_wait_for(self, pages: int) -> bool:
        return pages * COMING_ADAPTERS * 2 <= len(self._host_data)

    def keep(self, key: AdapterKey, adapter: Packable, pages: int) -> None:
        if pages > len(self._host_data) or self._tier.holds(key):
            return
        with self._tier.borrow((key, 0), pages) as image:
            if not image.is_packed:
                adapter.pack([self._host_data[page] for page in image.pages])
                image.is_packed = image.is_awaited = True

    def holds(self, key: AdapterKey) -> bool:
        return self._tier.holds(key)

    def load(self) -> TierLoad:
        return self._tier.load()
