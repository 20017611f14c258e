"""Hit rates of the tiers under Zipf load, over those that LRU would have had on the same trace.

    python tests/benchmarks/adapter_tiers.py --model DIR

Requests come one after the other, so that the trace has one order. The device is compared with LRU
of as many adapters over all requests, the host tier with LRU over the requests that missed the
device, and memory, which is both, with the two LRUs one behind the other. `disk` and `store` say
where the rest was found.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from loraplex.engine.benchmarks.local_engine import (
    engine_config,
    finish,
    greedy_request,
    local_engine,
)
from loraplex.engine.benchmarks.made_adapters import made_adapters
from loraplex.engine.benchmarks.popularity import Popularity, draw
from loraplex.engine.benchmarks.scripts import arguments_of, opened_model, print_line
from loraplex.engine.benchmarks.stored_adapters import object_store, stored_adapters
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.workers import Tier, TierLoad
from loraplex.engine.worker import load_adapter_source


class Lru:
    """As many of the newest as there is room for."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: OrderedDict[Digest, None] = OrderedDict()

    def misses(self, trace: Iterable[Digest]) -> list[Digest]:
        """Those of the trace that were not there when their turn came."""
        missed = []
        for digest in trace:
            if digest not in self._kept:
                missed.append(digest)
                if len(self._kept) == self._room:
                    self._kept.popitem(last=False)
            self._kept[digest] = None
            self._kept.move_to_end(digest)
        return missed


@dataclass(frozen=True)
class Replay:
    """What an engine did with a trace."""

    missed_device: list[Digest]
    tiers: dict[Tier, TierLoad]


def replay(core: EngineCore, trace: Sequence[AdapterRef]) -> Replay:
    """Requests of one token, one after the other."""
    missed = []
    for number, adapter in enumerate(trace):
        loads = core.load().adapter_loads
        finish(core, [greedy_request(f"request-{number}", [1], 1, adapter)])
        if core.load().adapter_loads > loads:
            missed.append(adapter.spec.digest)
    return Replay(missed, {load.tier: load for load in core.load().tiers})


def with_room(
    config: EngineConfig, table: ModuleTable, one: AdapterRef, *, device: int, host: int
) -> EngineConfig:
    """With room for so many adapters like this one on the device and in host memory."""
    with local_engine(config, table) as core:
        finish(core, [greedy_request("probe", [1], 1, one)])
        pages, page_bytes = core.load().adapter_pages, core.limits().page_bytes
    return msgspec.structs.replace(
        config,
        pool_bytes=(device * pages + 1) * page_bytes,  # one for the request that runs
        host_cache_bytes=host * pages * page_bytes,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--adapters", type=int, default=500)
    parser.add_argument("--tenants", type=int, default=3)
    parser.add_argument("--device", type=int, default=32, help="adapters the pool has room for")
    parser.add_argument("--host", type=int, default=128, help="adapters host memory has room for")
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--exponent", type=float, default=1.0, help="of Zipf's law")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    with opened_model(options.model) as (model_dir, table, folder):
        (one,) = made_adapters(folder, table, rank=options.rank, count=1)
        config = with_room(
            engine_config(model_dir, table, threads=options.threads),
            table,
            one,
            device=options.device,
            host=options.host,
        )
        config = msgspec.structs.replace(config, adapter_cache_dir=str(folder / "cache"))
        tenants = [TenantNamespace(f"tenant-{number}") for number in range(options.tenants)]
        chance = random.Random(options.seed)  # repeats
        with object_store(folder / "objects", 1e9) as url:
            adapters = stored_adapters(folder / "objects", url, one, options.adapters, tenants)
            chance.shuffle(adapters)
            trace = draw(adapters, Popularity.ZIPF, options.exponent, options.requests, chance)
            core = EngineCore(config, table, load_adapter_source(config))
            try:
                found = replay(core, trace)
            finally:
                core.close()
        digests = [adapter.spec.digest for adapter in trace]
        device_lru = Lru(options.device).misses(digests)
        memory_lru = Lru(options.host).misses(device_lru)
        host_lru = Lru(options.host).misses(found.missed_device)
        host = found.tiers[Tier.HOST]
        print_line(
            "adapter_tiers",
            requests=len(trace),
            adapters_called=len(set(digests)),
            device=_hit_rate(found.tiers[Tier.DEVICE]),
            device_lru=1 - len(device_lru) / len(trace),
            host=_hit_rate(host),
            host_lru=1 - len(host_lru) / len(found.missed_device),
            memory=1 - host.misses / len(trace),
            memory_lru=1 - len(memory_lru) / len(trace),
            disk=found.tiers[Tier.DISK].hits,
            store=found.tiers[Tier.STORE].hits,
        )


def _hit_rate(tier: TierLoad) -> float:
    return tier.hits / (tier.hits + tier.misses)


if __name__ == "__main__":
    main()
