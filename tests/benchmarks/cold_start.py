"""The first token of an adapter that is only in the object store, beside running streams.

    python tests/benchmarks/cold_start.py --model DIR

A store in a process of its own sends objects at --store-bytes-per-s. `transfer_ms` is one GET of
an adapter of the same size, nothing else; `warm_ttft_ms` the first token with one in the pool.
`over_ms` is what the cold first token takes beyond warm + 1.3 x transfer. `itl_ratio` is the p99
ITL of a stream beside requests whose adapters arrive over that beside the same requests for one
that is there: what loading costs it, not their prompts. `alone_p99_itl_ms` is without either.
"""

import statistics
import time
import urllib.request
from collections.abc import Sequence

import msgspec
import numpy as np

from loraplex.engine.benchmarks.local_engine import engine_config, greedy_request, prompt, step
from loraplex.engine.benchmarks.made_adapters import made_adapters
from loraplex.engine.benchmarks.scripts import arguments_of, opened_model, print_line
from loraplex.engine.benchmarks.stored_adapters import object_store, stored_adapters
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.generation import FinishReason
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.worker import load_adapter_source


class Streams:
    """One stream without end, and first tokens of other requests beside it."""

    def __init__(self, core: EngineCore, table: ModuleTable, prompt_tokens: int) -> None:
        self._core = core
        self._prompt = prompt(1, prompt_tokens, table.vocabulary_size)
        self._most_tokens = table.max_model_tokens - prompt_tokens
        self._times: list[float] = []
        self._asked = 0

    def begin(self) -> None:
        self._times = []
        self._ask_for_stream()
        while not self._times:
            self._step(None)

    def first_token_seconds(self, adapter: AdapterRef) -> float:
        """Of a request of one token."""
        self._asked += 1
        name, began_at = f"first-{self._asked}", time.perf_counter()
        self._core.add(greedy_request(name, self._prompt, 1, adapter))
        while not self._step(name):
            pass
        return time.perf_counter() - began_at

    def beside(self, adapters: list[AdapterRef], apart_tokens: int) -> tuple[list[float], float]:
        """The seconds to each adapter's first token, and the p99 of a stream beside them.

        Between two requests the stream is given `apart_tokens` tokens.
        """
        self.begin()
        seconds = []
        for adapter in adapters:
            seconds.append(self.first_token_seconds(adapter))
            self.run_for(apart_tokens)
        return seconds, self.end()

    def run_for(self, tokens: int) -> None:
        wanted = len(self._times) + tokens
        while len(self._times) < wanted:
            self._step(None)

    def end(self) -> float:
        """The p99 of its times between tokens."""
        self._core.cancel("stream")
        while self._core.has_work:
            step(self._core)
        return float(np.percentile(np.diff(self._times), 99))

    def _ask_for_stream(self) -> None:
        self._core.add(greedy_request("stream", self._prompt, self._most_tokens))

    def _step(self, name: str | None) -> bool:
        has_come = False
        for output in step(self._core):
            if output.request_id == "stream" and output.token_ids:
                self._times.append(time.perf_counter())
            if output.request_id == "stream" and output.finish_reason is FinishReason.LENGTH:
                self._ask_for_stream()  # the context is full
            has_come = has_come or output.request_id == name
        return has_come


def main(arguments: Sequence[str] | None = None) -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--rank", type=int, default=4, help="4 is 5 MB on SmolLM2-135M")
    parser.add_argument("--adapters", type=int, default=24)
    parser.add_argument("--apart-tokens", type=int, default=8, help="between two cold starts")
    parser.add_argument("--prompt-tokens", type=int, default=16)
    parser.add_argument("--store-bytes-per-s", type=float, default=50e6)
    options = parser.parse_args(arguments)
    with opened_model(options.model) as (model_dir, table, folder):
        (one,) = made_adapters(folder, table, rank=options.rank, count=1)
        config = engine_config(model_dir, table, threads=options.threads)
        config = msgspec.structs.replace(config, adapter_cache_dir=str(folder / "cache"))
        with object_store(folder / "objects", options.store_bytes_per_s) as url:
            adapters = stored_adapters(folder / "objects", url, one, options.adapters + 1)
            core = EngineCore(config, table, load_adapter_source(config))
            transfer = statistics.median(transfer_seconds(adapters[0].url) for _ in range(5))
            streams = Streams(core, table, options.prompt_tokens)
            streams.begin()
            streams.first_token_seconds(adapters[0])
            warm = statistics.median(streams.first_token_seconds(adapters[0]) for _ in range(9))
            streams.end()
            streams.begin()
            streams.run_for(options.adapters * options.apart_tokens * 2)
            alone_p99 = streams.end()
            _, warm_p99 = streams.beside([adapters[0]] * options.adapters, options.apart_tokens)
            cold, p99 = streams.beside(adapters[1:], options.apart_tokens)
            core.close()
        over = [seconds - warm - 1.3 * transfer for seconds in cold]
        print_line(
            "cold_start",
            adapter_bytes=one.spec.weights_bytes,
            adapters=len(cold),
            transfer_ms=transfer * 1e3,
            warm_ttft_ms=warm * 1e3,
            cold_ttft_ms=statistics.median(cold) * 1e3,
            cold_ttft_max_ms=max(cold) * 1e3,
            over_ms=statistics.median(over) * 1e3,
            over_max_ms=max(over) * 1e3,
            alone_p99_itl_ms=alone_p99 * 1e3,
            warm_p99_itl_ms=warm_p99 * 1e3,
            p99_itl_ms=p99 * 1e3,
            itl_ratio=p99 / warm_p99,
        )


def transfer_seconds(url: str) -> float:
    began_at = time.perf_counter()
    with urllib.request.urlopen(url) as answer:
        answer.read()
    return time.perf_counter() - began_at


if __name__ == "__main__":
    main()
