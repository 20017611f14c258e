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

    def let_through(self) -> None:
        """Let the oldest fetch succeed, waiting for it to begin."""
        ref, future = self._next()
        future.set_result(Path(ref.url))

    def fail(self, error: Exception | None = None) -> None:
        """Let the oldest fetch fail."""
        _, future = self._next()
        future.set_exception(error or AdapterUnavailable("The store is gone."))

    def _next(self) -> tuple[AdapterRef, Future[Path]]:
        with self._changed:
            assert self._changed.wait_for(lambda: self._fetches, timeout=30), "nobody fetches"
            return self._fetches.pop(0)
