"""Brings packed adapters into a pool's pages: directly on a CPU, through pinned memory on CUDA."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

import torch
from torch import Tensor

from loraplex.engine.lora.packing import AdapterFile
from loraplex.engine.memory.pool import PageId
from loraplex.engine.memory.residency import AdapterKey

HOST_BYTES: Final = 2**30
"""Pinned memory for packed adapters, staging and cache in one: a power of two, since torch's
allocator of pinned memory rounds up to one."""


class Fence(Protocol):
    """Something a copy waits for on the device; nobody on the host does."""


class PageWriter(Protocol):
    """Fills an adapter's pages, beside the steps."""

    def fence(self) -> Fence | None:
        """Called on the engine's thread: the end of every step submitted so far.

        A page just freed may still be read by a step on its way.
        """
        ...

    def write(
        self, key: AdapterKey, adapter: AdapterFile, pages: Sequence[PageId], after: Fence | None
    ) -> None:
        """Called on a loader thread; returns when steps submitted from now on may read the pages.

        Nothing is written before `after`, nor once it has returned or raised. Raises
        AdapterUnavailable.
        """
        ...


class PageCopies(Protocol):
    """Copies from host memory to the device, beside its other work."""

    def fence(self) -> Fence: ...

    def copy(self, sources: list[Tensor], targets: list[Tensor], after: Fence) -> None:
        """Wait on the device for `after`, copy, and wait on the host until that has ended."""
        ...


def page_writer(pool_data: Tensor) -> PageWriter:
    """The way into a pool on this device."""
    if pool_data.device.type != "cuda":
        return DirectWriter(pool_data)
    page_bytes = pool_data.shape[1] * pool_data.itemsize
    host_pages = max(1, min(HOST_BYTES // page_bytes, pool_data.shape[0]))
    host_data = torch.empty(host_pages, pool_data.shape[1], dtype=pool_data.dtype, pin_memory=True)
    return StagedWriter(pool_data, host_data, CopyStream(pool_data.device))


class DirectWriter:
    """Packs straight into the pool: on a CPU a step submitted is a step computed."""

    def __init__(self, pool_data: Tensor) -> None:
        self._pool_data = pool_data

    def fence(self) -> None:
        return None

    def write(
        self, key: AdapterKey, adapter: AdapterFile, pages: Sequence[PageId], after: Fence | None
    ) -> None:
        adapter.pack([self._pool_data[page] for page in pages])


class StagedWriter:
    """Packs into host pages and copies those, one copy a page.

    Packed adapters stay in the host pages, so that one which comes back is copied and neither
    read nor transposed again. An adapter larger than all host pages goes through them in parts.
    """

    def __init__(self, pool_data: Tensor, host_data: Tensor, copies: PageCopies) -> None:
        self._pool_data = pool_data
        self._host_data = host_data
        self._copies = copies
        self._images = HostImages(len(host_data))

    def fence(self) -> Fence:
        return self._copies.fence()

    def write(
        self, key: AdapterKey, adapter: AdapterFile, pages: Sequence[PageId], after: Fence | None
    ) -> None:
        assert after is not None, "a job carries the fence of the moment it was submitted"
        capacity = len(self._host_data)
        for first in range(0, len(pages), capacity):
            targets = [self._pool_data[page] for page in pages[first : first + capacity]]
            with self._images.borrow((key, first), len(targets)) as image:
                sources = [self._host_data[page] for page in image.pages]
                if not image.is_packed:
                    adapter.pack(sources, first)
                    image.is_packed = True
                self._copies.copy(sources, targets, after)


class HostImage:
    """Host pages; `is_packed` where they hold what they were borrowed for."""

    def __init__(self, pages: list[int]) -> None:
        self.pages = pages
        self.is_packed = False


_ImageKey = tuple[AdapterKey, int]
"""With the number of the first page. The tenant is part of an adapter's key, so that nobody learns
from timing what another tenant loaded."""


class HostImages:
    """Which host pages hold which adapter, those used longest ago first to go."""

    def __init__(self, pages: int) -> None:
        self._pages = pages
        self._free = list(range(pages))
        self._kept: OrderedDict[_ImageKey, HostImage] = OrderedDict()
        self._changed = threading.Condition()

    @contextmanager
    def borrow(self, key: _ImageKey, pages: int) -> Iterator[HostImage]:
        """An image nobody else touches meanwhile; waits while others borrow too many pages.

        It is kept where it was packed and nothing was raised.
        """
        assert pages <= self._pages
        with self._changed:
            image = self._kept.pop(key, None)
            if image is None:
                self._changed.wait_for(lambda: self._make_room(pages))
                image = HostImage([self._free.pop() for _ in range(pages)])
        has_failed = True
        try:
            yield image
            has_failed = not image.is_packed
        finally:
            with self._changed:
                if has_failed:
                    self._free += image.pages
                else:
                    self._kept[key] = image
                self._changed.notify_all()

    def _make_room(self, pages: int) -> bool:
        while len(self._free) < pages and self._kept:
            _, oldest = self._kept.popitem(last=False)
            self._free += oldest.pages
        return len(self._free) >= pages


class CopyStream:
    """A CUDA stream of its own, so that copies and steps overlap."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def fence(self) -> torch.cuda.Event:
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def copy(self, sources: list[Tensor], targets: list[Tensor], after: Fence) -> None:
        assert isinstance(after, torch.cuda.Event)
        # The host sleeps until the end rather than spinning: the steps need the core.
        done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        with torch.inference_mode(), torch.cuda.stream(self._stream):
            self._stream.wait_event(after)
            try:
                for source, target in zip(sources, targets, strict=True):
                    target.copy_(source, non_blocking=True)
            finally:
                # Also where one failed: no copy may be under way when the pages are given back.
                done.record(self._stream)
                done.synchronize()
