"""Time to first token with a shared prefix in the cache, over that without.

    python tests/benchmarks/prefix_hit.py --model DIR [--rank 16]

Each repeat asks twice on an idle engine, with a prefix that is new to it and another end each
time: the first misses and the second hits. `ratio` is of the two medians.
"""

import statistics
import time
from collections.abc import Sequence

from loraplex.engine.benchmarks.local_engine import (
    engine_config,
    greedy_request,
    local_engine,
    prompt,
    step,
)
from loraplex.engine.benchmarks.made_adapters import made_adapters
from loraplex.engine.benchmarks.scripts import arguments_of, opened_model, print_line
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.generation import GenerationRequest


def first_token(core: EngineCore, request: GenerationRequest) -> tuple[float, int]:
    """Seconds from arrival to the only token, and the prompt tokens that were cached."""
    started = time.perf_counter()
    core.add(request)
    outputs = []
    while core.has_work:
        outputs += step(core)
    seconds = time.perf_counter() - started
    return seconds, max(output.cached_tokens for output in outputs)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--prefix-tokens", type=int, default=1024)
    parser.add_argument("--suffix-tokens", type=int, default=16)
    parser.add_argument("--rank", type=int, default=0, help="of an adapter; 0 is the base")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args(arguments)
    with opened_model(options.model) as (model_dir, table, folder):
        adapter = None
        if options.rank:
            adapter, *_ = made_adapters(folder, table, rank=options.rank, count=1)

        def asked(number: int, prefix_tokens: int, end: int) -> GenerationRequest:
            prefix = prompt(number, prefix_tokens, table.vocabulary_size)
            suffix = prompt(1000 + end, options.suffix_tokens, table.vocabulary_size)
            return greedy_request(
                f"{number}-{end}", prefix + suffix, 1, adapter, use_prefix_cache=True
            )

        seconds: dict[str, list[float]] = {"miss": [], "hit": []}
        with local_engine(engine_config(model_dir, table, threads=options.threads), table) as core:
            first_token(core, asked(0, options.prefix_tokens, 0))  # warms up, loads the adapter
            for repeat in range(1, options.repeat + 1):
                for end, kind in enumerate(seconds):
                    taken, cached = first_token(core, asked(repeat, options.prefix_tokens, end))
                    seconds[kind].append(taken)
                    print_line(
                        "prefix_hit",
                        repeat=repeat,
                        kind=kind,
                        rank=options.rank,
                        prompt_tokens=options.prefix_tokens + options.suffix_tokens,
                        cached_tokens=cached,
                        ttft_ms=taken * 1e3,
                    )
        miss, hit = (statistics.median(seconds[kind]) for kind in ("miss", "hit"))
        print_line(
            "prefix_hit_median", miss_ttft_ms=miss * 1e3, hit_ttft_ms=hit * 1e3, ratio=hit / miss
        )


if __name__ == "__main__":
    main()
