"""What /metrics tells of the workers, from their last heartbeats."""

from time import time
from typing import cast

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from loraplex.api.metrics import Metrics
from loraplex.engine.protocol.identity import Digest
from loraplex.engine.protocol.workers import (
    AdaptersInUse,
    ProcessUse,
    Role,
    Tier,
    TierLoad,
    WorkerLimits,
    WorkerLoad,
)
from loraplex.platform.pools.fleet import WorkerFleet
from loraplex.platform.pools.views import WorkerState, WorkerView

DIGEST, OTHER = (Digest(f"sha256:{digit * 64}") for digit in "12")
LOAD = WorkerLoad(
    running_requests=3,
    waiting_requests=2,
    free_pages=40,
    kv_pages=25,
    adapter_pages=20,
    resident_adapters=4,
    prompt_tokens=700,
    output_tokens=90,
    preemptions=1,
    adapter_loads=6,
    cached_tokens=300,
    cached_pages=15,
    stalls=0,
)


class OneWorker:
    """A fleet of one worker with that load."""

    def __init__(self, load: WorkerLoad | None, state: WorkerState = WorkerState.LIVE) -> None:
        self._view = WorkerView(
            id="w-0",
            pool="default",
            role=Role.UNIFIED,
            base_name="base",
            state=state,
            incarnation="first",
            process_id=1,
            limits=WorkerLimits(4096, 4096, 16, 4096, 100, 64),
            is_accepting=True,
            in_flight=0,
            load=load,
            adapters=AdaptersInUse(running=(DIGEST, OTHER), waiting=(OTHER,)),
            process=ProcessUse(12.5, 2048, 30, 1.7e9),
        )

    def workers(self) -> list[WorkerView]:
        return [self._view]


def exported(fleet: OneWorker) -> dict[str, float]:
    """Every sample of a worker, by name."""
    text = Metrics().text(cast(WorkerFleet, fleet)).decode()
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels == {"model_name": "base", "engine": "w-0"}
    }


def test_a_workers_load_is_exported_under_vllms_names_where_they_mean_the_same() -> None:
    assert exported(OneWorker(LOAD)) == {
        "vllm:num_requests_running": 3,
        "vllm:num_requests_waiting": 2,
        "vllm:kv_cache_usage_perc": 0.25,
        "vllm:num_preemptions_total": 1,
        "vllm:prefix_cache_queries_total": 1000,
        "vllm:prefix_cache_hits_total": 300,
        "loraplex_worker_free_pages": 40,
        "loraplex_worker_cached_pages": 15,
        "loraplex_worker_adapter_pages": 20,
        "loraplex_worker_resident_adapters": 4,
        "loraplex_worker_adapter_loads_total": 6,
        "loraplex_worker_stalls_total": 0,
        "loraplex_worker_cpu_seconds_total": 12.5,
        "loraplex_worker_resident_memory_bytes": 2048,
        "loraplex_worker_open_fds": 30,
        "loraplex_worker_start_time_seconds": 1.7e9,
        "loraplex_worker_up": 1,
    }


def test_an_endpoint_picker_finds_what_its_contract_asks_for() -> None:
    """The Gateway API inference extension: queue, KV utilisation, blocks and LoRA."""
    text = Metrics().text(cast(WorkerFleet, OneWorker(LOAD))).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    queued, usage = (
        families[name] for name in ("vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    )
    assert (queued.type, usage.type) == ("gauge", "gauge")
    assert 0 <= usage.samples[0].value <= 1
    (blocks,) = families["vllm:cache_config_info"].samples
    assert (blocks.labels["block_size"], blocks.labels["num_gpu_blocks"]) == ("16", "100")
    (lora,) = families["vllm:lora_requests_info"].samples
    assert abs(lora.value - time()) < 60
    assert lora.labels == {
        "model_name": "base",
        "engine": "w-0",
        "max_lora": "64",
        "running_lora_adapters": f"{DIGEST},{OTHER}",
        "waiting_lora_adapters": OTHER,
    }


def test_each_tier_of_adapters_is_exported_under_its_name() -> None:
    tiers = (
        TierLoad(Tier.HOST, hits=5, misses=2, bytes=70, budget_bytes=100, evictions=1, joins=3),
        TierLoad(Tier.STORE, hits=2, bytes=40, load_seconds=0.5),
    )
    load = msgspec.structs.replace(LOAD, tiers=tiers)
    text = Metrics().text(cast(WorkerFleet, OneWorker(load))).decode()
    found = {
        (sample.name.removeprefix("loraplex_adapter_tier_"), sample.labels["tier"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "tier" in sample.labels
    }
    assert found["hits_total", "host"] == 5
    assert found["misses_total", "host"] == 2
    assert found["bytes", "host"] == 70
    assert found["budget_bytes", "host"] == 100
    assert found["evictions_total", "host"] == 1
    assert found["joins_total", "host"] == 3
    assert found["load_seconds_total", "store"] == 0.5
    assert found["corrupt_total", "store"] == 0


@pytest.mark.parametrize(
    ("state", "up"), [(WorkerState.LIVE, 1), (WorkerState.LOST, 0), (WorkerState.CONNECTING, 0)]
)
def test_a_worker_without_a_heartbeat_has_only_its_state(state: WorkerState, up: int) -> None:
    assert exported(OneWorker(None, state)) == {"loraplex_worker_up": up}
