"""What the workers' last heartbeats told, as metrics; whichever gateway is asked tells of all."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import time

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from loraplex.api.series.tiers import TIER_SERIES
from loraplex.engine.protocol.workers import ProcessUse, WorkerLimits, WorkerLoad
from loraplex.platform.pools.fleet import WorkerFleet


class WorkerCollector(Collector):
    """What the workers' last heartbeats told."""

    def __init__(self, fleet: WorkerFleet) -> None:
        self._fleet = fleet

    def collect(self) -> Iterable[Metric]:
        yield from worker_metrics(self._fleet)


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


@dataclass(frozen=True)
class ProcessSeries:
    """One series of what every worker's process takes of its machine."""

    name: str
    help_text: str
    value: Callable[[ProcessUse], float]
    is_total: bool = False

    def family(self) -> CounterMetricFamily | GaugeMetricFamily:
        kind = CounterMetricFamily if self.is_total else GaugeMetricFamily
        return kind(f"loraplex_worker_{self.name}", self.help_text, labels=WORKER_LABELS)


WORKER_LABELS = ("model_name", "engine")
LORA_LABELS = (*WORKER_LABELS, "max_lora", "running_lora_adapters", "waiting_lora_adapters")
LORA_TEXT = (
    "Digests of adapters whose requests run and wait, and when that was read, in Unix time: what "
    "the Gateway API inference extension asks of a model server."
)
CACHE_LABELS = (*WORKER_LABELS, "block_size", "num_gpu_blocks")
CACHE_TEXT = "Tokens of a block, and how many the pool could hold; always 1."
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


PROCESS_SERIES = (
    ProcessSeries(
        "cpu_seconds", "User and system time.", lambda use: use.cpu_seconds, is_total=True
    ),
    ProcessSeries("resident_memory_bytes", "Memory in RAM.", lambda use: use.resident_bytes),
    ProcessSeries("open_fds", "Open files.", lambda use: use.open_files),
    ProcessSeries("start_time_seconds", "When it began, in Unix time.", lambda use: use.started_at),
)


def worker_metrics(fleet: WorkerFleet) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        "loraplex_worker_up", "1 while the worker answers.", labels=WORKER_LABELS
    )
    told = [(series, series.family()) for series in WORKER_SERIES]
    tiers = [(series, series.family()) for series in TIER_SERIES]
    processes = [(series, series.family()) for series in PROCESS_SERIES]
    lora = GaugeMetricFamily("vllm:lora_requests_info", LORA_TEXT, labels=LORA_LABELS)
    cache = GaugeMetricFamily("vllm:cache_config_info", CACHE_TEXT, labels=CACHE_LABELS)
    for worker in fleet.workers():
        place = [worker.base_name, worker.id]
        up.add_metric(place, 1.0 if worker.state == "live" else 0.0)
        limits = worker.limits
        cache.add_metric([*place, str(limits.block_tokens), str(limits.pool_pages)], 1.0)
        if worker.load is None:
            continue
        for series, family in told:
            family.add_metric(place, series.value(worker.load, limits))
        for tier in worker.load.tiers:
            for tier_series, family in tiers:
                family.add_metric([*place, tier.tier.value], tier_series.value(tier))
        if worker.process is not None:
            for process_series, family in processes:
                family.add_metric(place, process_series.value(worker.process))
        adapters = ",".join(worker.adapters.running), ",".join(worker.adapters.waiting)
        lora.add_metric([*place, str(limits.max_running_requests), *adapters], time())
    yield from (family for _, family in (*told, *tiers, *processes))
    yield from (lora, cache, up)
