"""Metrics as Prometheus reads them: what the processes of this machine counted together.

Merging every process's values takes time that grows with the series, and holds up whatever else
the process does. So it is done once a second at most, however many ask, and by one thread at once.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from time import monotonic

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from loraplex.platform.metrics import REGISTRY
from loraplex.platform.metrics_folder import MULTIPROCESS_DIR, folder, forget_dead
from loraplex.platform.process_metrics import ProcessCollector
from loraplex.platform.shared_totals import SharedTotals

KEPT_SECONDS = 1.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Exposition:
    """One process's view: of the shared folder, or of its own registries where there is none."""

    def __init__(self, *own: CollectorRegistry, clock: Callable[[], float] = monotonic) -> None:
        self._own = (*own, REGISTRY)
        self._clock = clock
        self._lock = Lock()
        self._totals = SharedTotals()
        self._text = b""
        self._made_at = float("-inf")

    def text(self) -> bytes:
        """Blocks while it is put together; a second old at most."""
        with self._lock:
            if self._clock() - self._made_at >= KEPT_SECONDS:
                self._text = self._make()
                self._made_at = self._clock()
            return self._text

    def _make(self) -> bytes:
        if MULTIPROCESS_DIR not in os.environ:
            return b"".join(generate_latest(registry) for registry in self._own)
        forget_dead()
        present = CollectorRegistry()
        present.register(SharedGauges(folder()))
        present.register(ProcessCollector())
        return self._totals.text(folder()).encode() + generate_latest(present)


class SharedGauges(Collector):
    """What the processes of the folder told of their present."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        files = [str(file) for file in self._folder.glob("gauge_*.db")]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return merged
