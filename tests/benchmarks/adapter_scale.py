"""Throughput from a few registered adapters to thousands, with room for a budget of them.

    python tests/benchmarks/adapter_scale.py --model DIR

Every registered adapter is used once before anything is measured, so the engine knows them all.
Then requests are drawn by Zipf from the most popular of them, the working set, which is
  - as large as the smallest --registered: what the others are compared with;
  - as large as the budget: resident, with other adapters in every batch;
  - all that are registered: more than fit, so that some requests wait for a load.
`ratio` is the throughput over that of the first line; `loads` happened while it was measured.
"""

import random
from collections.abc import Iterable, Sequence

from loraplex.engine.benchmarks.local_engine import (
    engine_config,
    finish,
    greedy_request,
    keep_busy,
    local_engine,
    prompt,
)
from loraplex.engine.benchmarks.made_adapters import made_adapters
from loraplex.engine.benchmarks.popularity import Popularity, draw
from loraplex.engine.benchmarks.scripts import arguments_of, opened_model, print_line
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.generation import GenerationRequest
from loraplex.engine.protocol.module_table import ModuleTable


def requests_for(
    label: str, adapters: Iterable[AdapterRef], table: ModuleTable, prompt_tokens: int, output: int
) -> list[GenerationRequest]:
    return [
        greedy_request(
            f"{label}-{number}",
            prompt(number, prompt_tokens, table.vocabulary_size),
            output,
            adapter,
        )
        for number, adapter in enumerate(adapters)
    ]


def touch(core: EngineCore, adapters: Sequence[AdapterRef], table: ModuleTable, label: str) -> None:
    """Use each once; the most popular last, so that they stay."""
    keep_busy(core, requests_for(label, reversed(adapters), table, 1, 1), 64)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--registered", default="8,64,512,2000", help="ascending")
    parser.add_argument("--budget", type=int, default=64, help="adapters the pool has room for")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--requests", type=int, default=96)
    parser.add_argument("--concurrency", type=int, default=32, help="requests at once")
    parser.add_argument("--running", type=int, default=16, help="of them in a batch")
    parser.add_argument("--prompt-tokens", type=int, default=32)
    parser.add_argument("--output-tokens", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args(arguments)
    counts = [int(count) for count in options.registered.split(",")]
    with opened_model(options.model) as (model_dir, table, folder):
        adapters = made_adapters(folder, table, rank=options.rank, count=counts[-1])
        probe = engine_config(model_dir, table, threads=options.threads)
        with local_engine(probe, table) as core:
            finish(core, requests_for("probe", adapters[:1], table, 1, 1))
            adapter_pages = core.load().adapter_pages
            limits = core.limits()
        tokens = options.prompt_tokens + options.output_tokens
        kv_pages = options.running * -(-tokens // limits.block_tokens)
        config = engine_config(
            model_dir,
            table,
            threads=options.threads,
            pool_bytes=(options.budget * adapter_pages + kv_pages) * limits.page_bytes,
            max_running_requests=options.running,
        )
        first_tokens_per_s = None
        for registered in counts:
            with local_engine(config, table) as core:
                known = adapters[:registered]
                touch(core, known, table, "register")
                sets = sorted({counts[0], min(options.budget, registered), registered})
                for working_set in sets:
                    touch(core, known[: min(working_set, options.budget)], table, f"w{working_set}")
                    best, loads = 0.0, []
                    for repeat in range(options.repeat):
                        drawn = draw(
                            known[:working_set],
                            Popularity.ZIPF,
                            1.0,
                            options.requests,
                            random.Random(repeat),
                        )
                        work = requests_for(
                            f"{working_set}-{repeat}",
                            drawn,
                            table,
                            options.prompt_tokens,
                            options.output_tokens,
                        )
                        before = core.load().adapter_loads
                        seconds, output_tokens = keep_busy(core, work, options.concurrency)
                        best = max(best, output_tokens / seconds)
                        loads.append(core.load().adapter_loads - before)
                    first_tokens_per_s = first_tokens_per_s or best
                    print_line(
                        "adapter_scale",
                        registered=registered,
                        working_set=working_set,
                        budget=options.budget,
                        rank=options.rank,
                        is_resident=working_set <= options.budget,
                        output_tokens_per_s=best,
                        ratio=best / first_tokens_per_s,
                        requests=options.requests,
                        loads=loads,
                    )


if __name__ == "__main__":
    main()
