"""Brings adapters near before their pages are reserved: fetched, and packed in host memory.

A store that is slow or down must hold neither pages nor the turns of others, so whatever waits for
it waits here: many fetches at a time, of each tenant only some. A small adapter is packed while its
bytes come, so that with the last of them it is ready; of what was here already one at a time is.
"""

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from loraplex.engine.lora.reading import WrongBytes
from loraplex.engine.lora.sourcing import SourcedAdapter
from loraplex.engine.lora.staging import PageWriter
from loraplex.engine.memory.residency import AdapterKey
from loraplex.engine.protocol.errors import AdapterUnavailable, DomainError, TransferBroke
from loraplex.engine.protocol.identity import TenantNamespace

log = logging.getLogger(__name__)

FETCHES_LIMIT: Final = 8
"""Fetches at once: they wait for the network, and a thread that waits costs nothing."""
TENANT_FETCHES_LIMIT: Final = 6
FORETOLD_LIMIT: Final = 64
"""Adapters that nobody waits for yet; more would push one another out before they are used."""


@dataclass(frozen=True)
class Arrival:
    """An adapter that was asked for is near, or cannot be had."""

    key: AdapterKey
    error: DomainError | None


class AdapterArrivals:
    """Threads that bring adapters near. `ask`, `foretell` and `collect` belong to the engine's.

    `on_arrival` is called on a thread of its own after each arrival that was asked for. Without
    threads every adapter counts as near: who loads it fetches it.
    """

    def __init__(
        self,
        pages: PageWriter,
        on_arrival: Callable[[], None],
        begin_thread: Callable[[], None],
        threads: int = FETCHES_LIMIT,
    ) -> None:
        self._pages = pages
        self._on_arrival = on_arrival
        self._begin_thread = begin_thread
        self._changed = threading.Condition()
        self._is_closed = False
        self._queue: OrderedDict[AdapterKey, SourcedAdapter] = OrderedDict()
        self._under_way: set[AdapterKey] = set()
        self._fetching: Counter[TenantNamespace] = Counter()
        self._asked: set[AdapterKey] = set()
        self._arrived: list[Arrival] = []
        self._packing = threading.Lock()
        # Daemons: a fetch that hangs must not keep the process from ending.
        self._threads = [
            threading.Thread(target=self._run, name=f"adapter-arrival-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, key: AdapterKey, adapter: SourcedAdapter) -> bool:
        """Whether it is near; where it is not, it is told by `collect` when it is."""
        if not self._threads or self._pages.holds(key):
            return True
        with self._changed:
            self._asked.add(key)
            self._enqueue(key, adapter)
            if key in self._queue:  # before those that nobody waits for yet
                self._queue.move_to_end(key, last=False)
        return False

    def foretell(self, key: AdapterKey, adapter: SourcedAdapter) -> None:
        """Somebody may want it soon."""
        if not self._threads or self._pages.holds(key):
            return
        with self._changed:
            if len(self._queue) < FORETOLD_LIMIT:
                self._enqueue(key, adapter)

    def collect(self) -> list[Arrival]:
        """What was asked for and has ended since the last call."""
        with self._changed:
            arrived, self._arrived = self._arrived, []
            return arrived

    def close(self) -> None:
        """Let the threads end after what they are at; `join` waits for them."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def join(self, deadline: float) -> None:
        """Wait for closed threads to end, until `deadline` on the monotonic clock at most."""
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _enqueue(self, key: AdapterKey, adapter: SourcedAdapter) -> None:
        if key not in self._under_way and key not in self._queue:
            self._queue[key] = adapter
            self._changed.notify()

    def _run(self) -> None:
        self._begin_thread()
        while (taken := self._take()) is not None:
            key, adapter = taken
            error = self._bring(key, adapter)
            with self._changed:
                self._under_way.remove(key)
                self._fetching[key[0]] -= 1
                self._changed.notify()
                if key not in self._asked:
                    continue
                self._asked.remove(key)
                self._arrived.append(Arrival(key, error))
            self._on_arrival()

    def _take(self) -> tuple[AdapterKey, SourcedAdapter] | None:
        with self._changed:
            while not self._is_closed:
                key = next((key for key in self._queue if self._may_fetch(key[0])), None)
                if key is not None:
                    self._under_way.add(key)
                    self._fetching[key[0]] += 1
                    return key, self._queue.pop(key)
                self._changed.wait()
            return None

    def _may_fetch(self, namespace: TenantNamespace) -> bool:
        return self._fetching[namespace] < max(1, min(TENANT_FETCHES_LIMIT, len(self._threads) - 1))

    def _bring(self, key: AdapterKey, adapter: SourcedAdapter) -> DomainError | None:
        try:
            if not self._bring_along(key, adapter):
                adapter.fetch()
                with self._packing:
                    self._pages.keep(key, adapter, adapter.layout.pages)
        except DomainError as error:
            return error
        except Exception as error:  # whatever a source raises fails its own requests only
            log.exception("adapter %s did not arrive", key[1])
            return AdapterUnavailable(
                f"The adapter's weights could not be loaded: {type(error).__name__}."
            )
        return None

    def _bring_along(self, key: AdapterKey, adapter: SourcedAdapter) -> bool:
        """Pack it while it comes; False where it is here already, or has to be read afterwards."""
        pages = adapter.layout.pages
        if not self._pages.may_wait_for(pages):
            return False
        try:
            with adapter.source.follow(adapter.ref) as file:
                if file is None:
                    return False
                self._pages.keep(key, adapter.coming(file), pages)
        except (TransferBroke, WrongBytes):
            return False
        return True
