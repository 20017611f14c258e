"""Prometheus metrics of all gateways of a machine together; workers' from their heartbeats.

Names are vLLM's where the meaning is the same, else `loraplex_…`. Labels are bounded: base models,
routes and states, never tenants, adapters or paths. Gateways share a directory of memory-mapped
values (PROMETHEUS_MULTIPROC_DIR, set before prometheus_client is imported), so whichever gateway
is asked answers for all.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from loraplex.engine.protocol.messages import TierLoad, WorkerLimits, WorkerLoad
from loraplex.platform.metrics import REGISTRY
from loraplex.platform.metrics_folder import MULTIPROCESS_DIR
from loraplex.platform.pools.fleet import WorkerFleet

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
        workers = CollectorRegistry()
        workers.register(WorkerCollector(fleet))
        if MULTIPROCESS_DIR in os.environ:
            together = CollectorRegistry()
            MultiProcessCollector(together)  # type: ignore[no-untyped-call]
            counted = generate_latest(together)
        else:
            counted = generate_latest(self._registry) + generate_latest(REGISTRY)
        return counted + generate_latest(workers)


class WorkerCollector(Collector):
    """What the workers' last heartbeats told."""

    def __init__(self, fleet: WorkerFleet) -> None:
        self._fleet = fleet

    def collect(self) -> Iterable[Metric]:
        yield from _worker_metrics(self._fleet)


@dataclass(frozen=True)
class WorkerSeries:
    """One series of every worker; `is_total` where it only grows while the worker lives."""

    name: str
    help_text: str
    value: Callable[[WorkerLoad, WorkerLimits], float]
    is_total: bool = False

    def family(self) -> CounterMetricFamily | GaugeMetricFamily:
        kind = CounterMetricFamily if self.is_total else GaugeMetricFamily
        return kind(self.name, self.help_text, labels=WORKER_LABELS)


WORKER_LABELS = ("model_name", "engine")
WORKER_SERIES = (
    WorkerSeries(
        "vllm:num_requests_running",
        "Sequences in the running batch.",
        lambda load, _: load.running_requests,
    ),
    WorkerSeries(
        "vllm:num_requests_waiting", "Sequences that wait.", lambda load, _: load.waiting_requests
    ),
    WorkerSeries(
        "vllm:kv_cache_usage_perc",
        "Share of the page pool that running sequences' KV takes; 1 is all.",
        lambda load, limits: load.kv_pages / max(1, limits.pool_pages),
    ),
    WorkerSeries(
        "vllm:num_preemptions",
        "Sequences that gave up their pages to others.",
        lambda load, _: load.preemptions,
        is_total=True,
    ),
    WorkerSeries(
        "vllm:prefix_cache_queries",
        "Prompt tokens, found in the prefix cache or computed.",
        lambda load, _: load.cached_tokens + load.prompt_tokens,
        is_total=True,
    ),
    WorkerSeries(
        "vllm:prefix_cache_hits",
        "Prompt tokens found in the prefix cache.",
        lambda load, _: load.cached_tokens,
        is_total=True,
    ),
    WorkerSeries(
        "loraplex_worker_free_pages", "Pages free in the pool.", lambda load, _: load.free_pages
    ),
    WorkerSeries(
        "loraplex_worker_cached_pages",
        "Pages of cached prefixes that no running sequence uses.",
        lambda load, _: load.cached_pages,
    ),
    WorkerSeries(
        "loraplex_worker_adapter_pages",
        "Pages that adapters take.",
        lambda load, _: load.adapter_pages,
    ),
    WorkerSeries(
        "loraplex_worker_resident_adapters",
        "Adapters in the pool.",
        lambda load, _: load.resident_adapters,
    ),
    WorkerSeries(
        "loraplex_worker_adapter_loads",
        "Adapters loaded into the pool.",
        lambda load, _: load.adapter_loads,
        is_total=True,
    ),
    WorkerSeries(
        "loraplex_worker_stalls",
        "Times that sequences waited while nothing ran or loaded: each is a defect.",
        lambda load, _: load.stalls,
        is_total=True,
    ),
)


TIER_LABELS = (*WORKER_LABELS, "tier")


@dataclass(frozen=True)
class TierSeries:
    """One series of every tier where a worker's adapters lie."""

    name: str
    help_text: str
    value: Callable[[TierLoad], float]
    is_total: bool = True

    def family(self) -> CounterMetricFamily | GaugeMetricFamily:
        kind = CounterMetricFamily if self.is_total else GaugeMetricFamily
        return kind(f"loraplex_adapter_tier_{self.name}", self.help_text, labels=TIER_LABELS)


TIER_SERIES = (
    TierSeries("hits", "Adapters found in this tier.", lambda load: load.hits),
    TierSeries("misses", "Adapters asked of the next tier.", lambda load: load.misses),
    TierSeries(
        "bytes",
        "Bytes in this tier; of the store, bytes fetched.",
        lambda load: load.bytes,
        is_total=False,
    ),
    TierSeries(
        "budget_bytes",
        "What the tier may hold; 0 of the store.",
        lambda load: load.budget_bytes,
        is_total=False,
    ),
    TierSeries("evictions", "Adapters that made room for others.", lambda load: load.evictions),
    TierSeries(
        "load_seconds",
        "Seconds spent on bringing adapters here; of the store, on fetching them.",
        lambda load: load.load_seconds,
    ),
    TierSeries("joins", "Waits for a load that somebody else had begun.", lambda load: load.joins),
    TierSeries("corrupt", "Files put aside for wrong bytes.", lambda load: load.corrupt),
)


def _worker_metrics(fleet: WorkerFleet) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        "loraplex_worker_up", "1 while the worker answers.", labels=WORKER_LABELS
    )
    told = [(series, series.family()) for series in WORKER_SERIES]
    tiers = [(series, series.family()) for series in TIER_SERIES]
    for worker in fleet.workers():
        place = [worker.base_name, worker.id]
        up.add_metric(place, 1.0 if worker.state == "live" else 0.0)
        if worker.load is None:
            continue
        for series, family in told:
            family.add_metric(place, series.value(worker.load, worker.limits))
        for tier in worker.load.tiers:
            for tier_series, family in tiers:
                family.add_metric([*place, tier.tier.value], tier_series.value(tier))
    yield from (family for _, family in told)
    yield from (family for _, family in tiers)
    yield up
