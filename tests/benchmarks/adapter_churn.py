"""A running stream while another tenant's adapters load and unload at full tilt.

    python tests/benchmarks/adapter_churn.py --model DIR

The stream runs alone, beside one-token requests for adapters that are resident, and beside as many
requests for adapters of which each needs a load and evicts another: the one used longest ago of
more than the pool has room for. They come at a rate, whatever becomes of those before.
`itl_ratio` is p99 over p99 of the quiet run before it; `load_ratio` is p99 over p99 beside the
resident ones: what the loads cost apart from the other tenant's rows in the batch. Without
`--host-cache-bytes 0` the adapters come from host memory; with it each is read, hashed and packed.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import count, cycle, islice, pairwise

import numpy as np

from loraplex.engine.benchmarks.local_engine import (
    engine_config,
    finish,
    greedy_request,
    local_engine,
    prompt,
    step,
)
from loraplex.engine.benchmarks.made_adapters import made_adapters
from loraplex.engine.benchmarks.scripts import arguments_of, opened_model, print_line
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.generation import GenerationRequest
from loraplex.engine.protocol.identity import TenantNamespace

STREAM = "stream"
LIVE_LIMIT = 4
"""Of the other tenant's requests: one that cannot keep up is not measured by its backlog."""


class Run:
    """The stream from its first token to its last, with `rate` other requests a second."""

    def __init__(
        self,
        core: EngineCore,
        stream: GenerationRequest,
        others: Iterator[GenerationRequest],
        rate: float,
    ) -> None:
        self.token_ids: list[int] = []
        self.times: list[float] = []
        core.add(stream)
        while not self.times:
            self._step(core)
        loads_before, started = core.load().adapter_loads, time.perf_counter()
        live: set[str] = set()
        asked, ended = 0, set[str]()
        while STREAM not in ended:
            while len(live) < LIVE_LIMIT and (time.perf_counter() - started) * rate > asked:
                other = next(others)
                core.add(other)
                live.add(other.request_id)
                asked += 1
            ended = self._step(core)
            live -= ended
        self.seconds = time.perf_counter() - started
        self.loads = core.load().adapter_loads - loads_before
        for request_id in live:
            core.cancel(request_id)
        while core.has_work:
            step(core)

    @property
    def p99_itl_seconds(self) -> float:
        gaps = [later - earlier for earlier, later in pairwise(self.times)]
        return float(np.percentile(gaps, 99))

    @property
    def loads_per_s(self) -> float:
        return self.loads / self.seconds

    def _step(self, core: EngineCore) -> set[str]:
        ended = set()
        for output in step(core):
            if output.request_id == STREAM and output.token_ids:
                self.token_ids += output.token_ids
                self.times.append(time.perf_counter())
            if output.finish_reason is not None:
                ended.add(output.request_id)
        return ended


def main(arguments: Sequence[str] | None = None) -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--room", type=int, default=4, help="churned adapters that fit at once")
    parser.add_argument("--churned", type=int, default=24, help="adapters of the other tenant")
    parser.add_argument("--rate", type=float, default=6.0, help="their requests a second")
    parser.add_argument("--host-cache-bytes", type=int, default=None)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--output-tokens", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args(arguments)
    with opened_model(options.model) as (model_dir, table, folder):
        own, *_ = made_adapters(
            folder, table, rank=options.rank, count=1, namespace=TenantNamespace("one")
        )
        theirs = made_adapters(
            folder,
            table,
            rank=options.rank,
            count=options.churned,
            namespace=TenantNamespace("another"),
        )
        stream = greedy_request(
            STREAM,
            prompt(0, options.prompt_tokens, table.vocabulary_size),
            options.output_tokens,
            own,
        )
        numbers = count()

        def others(adapters: Sequence[AdapterRef]) -> Iterator[GenerationRequest]:
            for adapter in cycle(adapters):
                yield greedy_request(f"other-{next(numbers)}", [1], 1, adapter)

        with local_engine(engine_config(model_dir, table, threads=options.threads), table) as core:
            finish(core, [greedy_request("probe", [1], 1, own)])
            adapter_pages, limits = core.load().adapter_pages, core.limits()
        tokens = options.prompt_tokens + options.output_tokens
        kv_pages = -(-tokens // limits.block_tokens) + LIVE_LIMIT
        pages = (1 + options.room) * adapter_pages + kv_pages
        config = engine_config(
            model_dir,
            table,
            threads=options.threads,
            pool_bytes=pages * limits.page_bytes,
            host_cache_bytes=options.host_cache_bytes,
        )
        ratios, load_ratios = [], []
        with local_engine(config, table) as core:
            churn = others(theirs)
            Run(core, stream, churn, options.rate)  # warms up both kinds
            for repeat in range(options.repeat):
                resident = others(theirs[: options.room - 1])
                finish(core, list(islice(resident, options.room - 1)))
                quiet = Run(core, stream, churn, 0)
                beside = Run(core, stream, resident, options.rate)
                churned = Run(core, stream, churn, options.rate)
                ratios.append(churned.p99_itl_seconds / quiet.p99_itl_seconds)
                load_ratios.append(churned.p99_itl_seconds / beside.p99_itl_seconds)
                print_line(
                    "adapter_churn",
                    repeat=repeat,
                    rank=options.rank,
                    loads_per_s=churned.loads_per_s,
                    resident_loads_per_s=beside.loads_per_s,
                    quiet_p50_itl_ms=float(np.percentile(np.diff(quiet.times), 50)) * 1e3,
                    quiet_p99_itl_ms=quiet.p99_itl_seconds * 1e3,
                    resident_p99_itl_ms=beside.p99_itl_seconds * 1e3,
                    churned_p99_itl_ms=churned.p99_itl_seconds * 1e3,
                    itl_ratio=ratios[-1],
                    load_ratio=load_ratios[-1],
                    tokens=len(quiet.token_ids),
                    tokens_are_identical=quiet.token_ids == churned.token_ids,
                )
        print_line(
            "adapter_churn_median",
            itl_ratio=statistics.median(ratios),
            load_ratio=statistics.median(load_ratios),
        )


if __name__ == "__main__":
    main()
