"""Prometheus metrics of all gateways of a machine together; workers' from their heartbeats.

Names are vLLM's where the meaning is the same, else `loraplex_…`. Labels are bounded: base models,
routes and states, never tenants, adapters or paths. Gateways share a directory of memory-mapped
values (PROMETHEUS_MULTIPROC_DIR, set before prometheus_client is imported), so whichever gateway
is asked answers for all.
"""

import os
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from loraplex.platform.pools.fleet import WorkerFleet

MULTIPROCESS_DIR = "PROMETHEUS_MULTIPROC_DIR"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160)
TOKEN_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5)


class Metrics:
    """The gateway's own metrics, and the text of /metrics."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        base = ["model_name"]
        self.prompt_tokens = Counter(
            "vllm:prompt_tokens", "Prompt tokens of calls that ran.", base, registry=registry
        )
        self.generation_tokens = Counter(
            "vllm:generation_tokens", "Tokens generated.", base, registry=registry
        )
        self.finished = Counter(
            "vllm:request_success",
            "Sequences finished.",
            [*base, "finished_reason"],
            registry=registry,
        )
        self.time_to_first_token = Histogram(
            "vllm:time_to_first_token_seconds",
            "From admission to a call's first output.",
            base,
            buckets=SECONDS,
            registry=registry,
        )
        self.time_per_output_token = Histogram(
            "vllm:request_time_per_output_token_seconds",
            "A call's mean time between tokens.",
            base,
            buckets=TOKEN_SECONDS,
            registry=registry,
        )
        self.call_seconds = Histogram(
            "vllm:e2e_request_latency_seconds",
            "From admission to a call's end.",
            base,
            buckets=SECONDS,
            registry=registry,
        )
        self.calls = Counter(
            "loraplex_calls", "Generation calls ended.", [*base, "outcome"], registry=registry
        )
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
        self.settlements_lost = Counter(
            "loraplex_settlements_lost",
            "Calls whose ledger row could not be written.",
            registry=registry,
        )

    def text(self, fleet: WorkerFleet) -> bytes:
        """Everything in Prometheus' text format, as of now."""
        if MULTIPROCESS_DIR in os.environ:
            gateways = CollectorRegistry()
            MultiProcessCollector(gateways)  # type: ignore[no-untyped-call]
        else:
            gateways = self._registry
        workers = CollectorRegistry()
        workers.register(WorkerCollector(fleet))
        return generate_latest(gateways) + generate_latest(workers)


class WorkerCollector(Collector):
    """What the workers' last heartbeats told."""

    def __init__(self, fleet: WorkerFleet) -> None:
        self._fleet = fleet

    def collect(self) -> Iterable[Metric]:
        yield from _worker_metrics(self._fleet)


def _worker_metrics(fleet: WorkerFleet) -> Iterator[Metric]:
    labels = ["model_name", "engine"]

    def gauge(name: str, help_text: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(name, help_text, labels=labels)

    running = gauge("vllm:num_requests_running", "Sequences in the running batch.")
    waiting = gauge("vllm:num_requests_waiting", "Sequences that wait.")
    usage = gauge("vllm:kv_cache_usage_perc", "Share of the page pool that KV takes; 1 is all.")
    free = gauge("loraplex_worker_free_pages", "Pages free in the pool.")
    adapter_pages = gauge("loraplex_worker_adapter_pages", "Pages that adapters take.")
    adapters = gauge("loraplex_worker_resident_adapters", "Adapters in the pool.")
    up = gauge("loraplex_worker_up", "1 while the worker answers.")
    for worker in fleet.workers():
        place = [worker.base_name, worker.id]
        up.add_metric(place, 1.0 if worker.state == "live" else 0.0)
        load = worker.load
        if load is None:
            continue
        running.add_metric(place, load.running_requests)
        waiting.add_metric(place, load.waiting_requests)
        usage.add_metric(place, load.kv_pages / max(1, worker.limits.pool_pages))
        free.add_metric(place, load.free_pages)
        adapter_pages.add_metric(place, load.adapter_pages)
        adapters.add_metric(place, load.resident_adapters)
    yield from (running, waiting, usage, free, adapter_pages, adapters, up)
