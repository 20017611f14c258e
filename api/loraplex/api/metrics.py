"""What a gateway counts, and the text of /metrics: all of this machine's processes together.

Processes share a directory of memory-mapped values (`platform/metrics_folder.py`), so whichever
gateway is asked answers for all; of the workers it tells what their heartbeats told. Labels are
bounded: base models, classes, routes, states and a number of tenants, never adapters or paths.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from loraplex.api.series.calls import SECONDS, CallMetrics
from loraplex.api.series.workers import WorkerCollector
from loraplex.platform.exposition import Exposition
from loraplex.platform.pools.fleet import WorkerFleet


class Metrics:
    """The gateway's own metrics."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._exposition = Exposition(registry)
        self.calls = CallMetrics(registry)
        self.running_calls = Gauge(
            "loraplex_running_calls",
            "Generation calls that run now.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.http_requests = Counter(
            "loraplex_http_requests",
            "HTTP requests answered.",
            ["route", "method", "status"],
            registry=registry,
        )
        self.http_seconds = Histogram(
            "loraplex_http_request_seconds",
            "From a request's first byte to its answer's last.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.settlements_left = Counter(
            "loraplex_settlements_left",
            "Calls whose bill this gateway could not write; recovery writes it.",
            registry=registry,
        )

    def text(self, fleet: WorkerFleet) -> bytes:
        """Everything in Prometheus' text format. Blocks; what was counted may be a second old."""
        workers = CollectorRegistry()
        workers.register(WorkerCollector(fleet))
        return self._exposition.text() + generate_latest(workers)
