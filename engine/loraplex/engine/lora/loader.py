"""Brings adapters near, and into their reserved pages, on threads beside the steps."""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final

from torch import Tensor

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.lora.arrivals import FETCHES_LIMIT, AdapterArrivals
from loraplex.engine.lora.copies import Fence
from loraplex.engine.lora.gains import BaseLinears
from loraplex.engine.lora.layout import AdapterLayout
from loraplex.engine.lora.sourcing import SourcedAdapter
from loraplex.engine.lora.staging import page_writer
from loraplex.engine.memory.pool import PageId
from loraplex.engine.memory.residency import AdapterKey
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterUnavailable, DomainError
from loraplex.engine.protocol.workers import TierLoad

log = logging.getLogger(__name__)

_NICENESS: Final = 5
"""Of the loader threads over the worker's own, where the system knows such a thing: where cores
are short, a step's threads go first, and a load is still three times as slow at most."""
_NICEST: Final = 19
CLOSE_SECONDS: Final = 10.0
AT_ONCE_BYTES: Final = 8 * 1024 * 1024
"""Copied between two steps at most: one or two milliseconds, a few percent of a step."""


@dataclass(frozen=True)
class LoadJob:
    """Pages are reserved for the whole load and belong to it until it has ended."""

    key: AdapterKey
    ref: AdapterRef
    layout: AdapterLayout
    pages: Sequence[PageId]


@dataclass(frozen=True)
class LoadResult:
    key: AdapterKey
    error: DomainError | None


class AdapterLoader:
    """Threads that take jobs; results wait in a queue until the engine thread collects them.

    `on_finished` is called on a loader thread after each result. `base` is None on devices that
    serve no DoRA and no biases.
    """

    def __init__(
        self,
        source: AdapterSource,
        pool_data: Tensor,
        on_finished: Callable[[], None],
        *,
        host_bytes: int = 0,
        threads: int = 2,
        base: BaseLinears | None = None,
    ) -> None:
        self._base = base
        self._source = source
        self._pages = page_writer(pool_data, host_bytes)
        self._most_pages_at_once = AT_ONCE_BYTES // (pool_data.shape[1] * pool_data.itemsize)
        self._pages_at_once = self._most_pages_at_once
        self._on_finished = on_finished
        self._jobs: SimpleQueue[tuple[LoadJob, Fence | None] | None] = SimpleQueue()
        self._results: SimpleQueue[LoadResult] = SimpleQueue()
        # Daemons: a fetch that hangs must not keep the process from ending.
        self.arrivals = AdapterArrivals(
            self._pages, on_finished, _yield_to_steps, FETCHES_LIMIT if threads else 0
        )
        self._threads = [
            threading.Thread(target=self._run, name=f"adapter-loader-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: LoadJob) -> None:
        """Start a load, from the engine's thread: it writes nothing before the steps so far end.

        A little that lies packed in host memory is written before this returns: beside a step the
        copy takes the same memory from it, and the request waits for one more step.
        """
        if len(job.pages) <= self._pages_at_once and self._pages.write_at_once(job.key, job.pages):
            self._pages_at_once -= len(job.pages)
            self._results.put(LoadResult(job.key, None))
            return
        self._jobs.put((job, self._pages.fence()))

    @property
    def have_ended(self) -> bool:
        """Whether `collect` would tell of a load."""
        return not self._results.empty()

    def sourced(self, ref: AdapterRef, layout: AdapterLayout) -> SourcedAdapter:
        """The adapter as it comes from this loader's source."""
        return SourcedAdapter(self._source, ref, layout, self._base)

    def collect(self) -> list[LoadResult]:
        """Loads that have ended since the last call; once a step."""
        self._pages_at_once = self._most_pages_at_once
        results = []
        while True:
            try:
                results.append(self._results.get_nowait())
            except Empty:
                return results

    def tiers(self) -> tuple[TierLoad, ...]:
        """What the tiers below the pool have done."""
        host = self._pages.load()
        return (*(() if host is None else (host,)), *self._source.tiers())

    def close(self) -> None:
        """Let the threads end after the jobs they have, and wait a moment for them.

        An interpreter that ends while a daemon is inside of torch aborts the process: whoever ends
        by returning has to see the threads end. A fetch that hangs is not waited for longer.
        """
        deadline = time.monotonic() + CLOSE_SECONDS
        self.arrivals.close()
        for _ in self._threads:
            self._jobs.put(None)
        self.arrivals.join(deadline)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def run_one(self) -> bool:
        """Wait for a job and do it; False where the loader has been closed."""
        taken = self._jobs.get()
        if taken is None:
            return False
        job, fence = taken
        self._results.put(LoadResult(job.key, self._load(job, fence)))
        self._on_finished()
        return True

    def _run(self) -> None:
        _yield_to_steps()
        while self.run_one():
            pass

    def _load(self, job: LoadJob, fence: Fence | None) -> DomainError | None:
        try:
            adapter = self.sourced(job.ref, job.layout)
            self._pages.write(job.key, adapter, job.pages, fence)
        except DomainError as error:
            return error
        except Exception as error:  # whatever a source raises fails its own requests only
            log.exception("loading adapter %s failed", job.ref.spec.digest)
            return AdapterUnavailable(
                f"The adapter's weights could not be loaded: {type(error).__name__}."
            )
        return None


def _yield_to_steps() -> None:
    """Lower this thread's priority; on Linux a thread has one of its own."""
    if sys.platform == "linux":
        own = os.getpriority(os.PRIO_PROCESS, 0)
        niceness = min(_NICEST, own + _NICENESS)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
