"""A running stream while another tenant's adapters load and unload at full tilt.

    python tests/benchmarks/adapter_churn.py --model DIR

The stream runs alone and beside the churn in turn. The churn is one-token requests, each for the
adapter that was used longest ago of more than the pool has room for, so that each needs a load
and evicts another. `itl_ratio` is p99 over p99 of the quiet run before it.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import count, cycle, pairwise

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
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.messages import GenerationRequest

STREAM = "stream"


class Run:
    """The stream from its first token to its last, with `churners` other requests at all times."""

    def __init__(
        self,
        core: EngineCore,
        stream: GenerationRequest,
        others: Iterator[GenerationRequest],
        churners: int,
    ) -> None:
        self.token_ids: list[int] = []
        self.times: list[float] = []
        core.add(stream)
        while not self.times:
            self._step(core)
        loads_before, started = core.load().adapter_loads, time.perf_counter()
        live = {other.request_id for other in self._add(core, others, churners)}
        is_running = True
        while is_running:
            ended = self._step(core)
            is_running = STREAM not in ended
            gone = live & ended
            live -= gone
            live |= {other.request_id for other in self._add(core, others, len(gone))}
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

    def _step(self, core: EngineCore) -> set[str]:
        ended = set()
        for output in step(core):
            if output.request_id == STREAM and output.token_ids:
                self.token_ids += output.token_ids
                self.times.append(time.perf_counter())
            if output.finish_reason is not None:
                ended.add(output.request_id)
        return ended

    @staticmethod
    def _add(
        core: EngineCore, others: Iterator[GenerationRequest], number: int
    ) -> list[GenerationRequest]:
        added = [next(others) for _ in range(number)]
        for request in added:
            core.add(request)
        return added


def main(arguments: Sequence[str] | None = None) -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--room", type=int, default=4, help="churned adapters that fit at once")
    parser.add_argument("--churned", type=int, default=24, help="adapters of the other tenant")
    parser.add_argument("--churners", type=int, default=2, help="their requests at a time")
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
        others = (
            greedy_request(f"other-{next(numbers)}", [1], 1, adapter) for adapter in cycle(theirs)
        )
        with local_engine(engine_config(model_dir, table, threads=options.threads), table) as core:
            finish(core, [greedy_request("probe", [1], 1, own)])
            adapter_pages, limits = core.load().adapter_pages, core.limits()
        tokens = options.prompt_tokens + options.output_tokens
        kv_pages = -(-tokens // limits.block_tokens) + options.churners
        pages = (1 + options.room) * adapter_pages + kv_pages
        config = engine_config(
            model_dir, table, threads=options.threads, pool_bytes=pages * limits.page_bytes
        )
        ratios = []
        with local_engine(config, table) as core:
            Run(core, stream, others, options.churners)  # warms up both kinds
            for repeat in range(options.repeat):
                quiet = Run(core, stream, others, 0)
                churned = Run(core, stream, others, options.churners)
                ratios.append(churned.p99_itl_seconds / quiet.p99_itl_seconds)
                print_line(
                    "adapter_churn",
                    repeat=repeat,
                    rank=options.rank,
                    loads_per_s=churned.loads / churned.seconds,
                    quiet_p99_itl_ms=quiet.p99_itl_seconds * 1e3,
                    churned_p99_itl_ms=churned.p99_itl_seconds * 1e3,
                    itl_ratio=ratios[-1],
                    tokens=len(quiet.token_ids),
                    tokens_are_identical=quiet.token_ids == churned.token_ids,
                )
        print_line("adapter_churn_median", itl_ratio=statistics.median(ratios))


if __name__ == "__main__":
    main()
