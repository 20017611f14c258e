"""An adapter source whose fetches end when, and how, a test says."""

import threading
from concurrent.futures import Future
from pathlib import Path

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterUnavailable


class GatedSource(AdapterSource):
    """Each fetch waits until it is let through or failed."""

    def __init__(self) -> None:
        self._fetches: list[tuple[AdapterRef, Future[Path]]] = []
        self._changed = threading.Condition()

    def fetch(self, ref: AdapterRef) -> Path:
        future: Future[Path] = Future()
        with self._changed:
            self._fetches.append((ref, future))
            self._changed.notify_all()
        return future.result()

    @property
    def waiting(self) -> int:
        return len(self._fetches)

    def wait_for(self, fetches: int) -> None:
        """Wait until so many fetches have begun and not ended."""
        with self._changed:
            has_begun = self._changed.wait_for(lambda: len(self._fetches) >= fetches, timeout=30)
            assert has_begun, f"{len(self._fetches)} fetches instead of {fetches}"

    def let_through(self, place: int = 0) -> None:
        """Let the oldest fetch succeed, or the one at this place, waiting for it to begin."""
        ref, future = self._next(place)
        future.set_result(Path(ref.url))

    def fail(self, error: Exception | None = None) -> None:
        """Let the oldest fetch fail."""
        _, future = self._next()
        future.set_exception(error or AdapterUnavailable("The store is gone."))

    def _next(self, place: int = 0) -> tuple[AdapterRef, Future[Path]]:
        with self._changed:
            assert self._changed.wait_for(lambda: self._fetches, timeout=30), "nobody fetches"
            return self._fetches.pop(place)
