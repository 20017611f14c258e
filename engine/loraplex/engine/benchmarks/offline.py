"""Prefill and decode throughput of an engine alone: a whole batch at once, no server, no network.

All sequences arrive together; sequence i uses adapter i mod adapters_in_batch.
"""

import resource
import time
from collections.abc import Iterator, Sequence
from itertools import count

import msgspec
import torch

from loraplex.engine.benchmarks.errors import InvalidWorkload
from loraplex.engine.benchmarks.local_engine import finish, greedy_request, prompt
from loraplex.engine.benchmarks.throughput import DECODE_PROMPT_TOKENS, Speed, Workload, speed
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.module_table import ModuleTable


class OfflineResult(Speed, frozen=True, kw_only=True):
    """One repeat. `peak_rss_bytes` is the process's greatest resident size so far."""

    system: str = "loraplex"
    model: str
    adapters_in_batch: int
    max_rank: int
    """Of the adapters in the batch; 0 with none."""
    sequences: int
    prompt_tokens: int
    output_tokens: int
    max_step_tokens: int
    threads: int
    repeat: int
    peak_rss_bytes: int


class OfflineBenchmark:
    """Runs a workload on an engine again and again; loads its adapters and warms up first.

    Raises InvalidWorkload when it cannot be measured.
    """

    def __init__(
        self,
        core: EngineCore,
        table: ModuleTable,
        adapters: Sequence[AdapterRef],
        workload: Workload,
        max_step_tokens: int,
    ) -> None:
        check(workload, len(adapters))
        self._core = core
        self._table = table
        self._adapters = adapters[: workload.adapters_in_batch]
        self._workload = workload
        self._max_step_tokens = max_step_tokens
        self._numbers = count()

    def repeats(self, repeats: int) -> Iterator[OfflineResult]:
        """Measure so many times; each result comes as soon as it is known."""
        self._seconds(self._workload.prompt_tokens, 1)
        self._seconds(DECODE_PROMPT_TOKENS, 2)
        for repeat in range(repeats):
            yield self._measure(repeat)

    def _measure(self, repeat: int) -> OfflineResult:
        work = self._workload
        measured = speed(
            work,
            prefill_seconds=self._seconds(work.prompt_tokens, 1),
            long_seconds=self._seconds(DECODE_PROMPT_TOKENS, work.output_tokens),
            short_seconds=self._seconds(DECODE_PROMPT_TOKENS, 1),
        )
        return OfflineResult(
            **msgspec.structs.asdict(measured),
            **msgspec.structs.asdict(work),
            model=self._table.base_name,
            max_rank=max((ref.spec.max_rank for ref in self._adapters), default=0),
            max_step_tokens=self._max_step_tokens,
            threads=torch.get_num_threads(),
            repeat=repeat,
            peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )

    def _seconds(self, prompt_tokens: int, output_tokens: int) -> float:
        """The time that a batch of all sequences takes."""
        vocabulary_size = self._table.vocabulary_size
        requests = [
            greedy_request(
                f"offline-{next(self._numbers)}",
                prompt(sequence, prompt_tokens, vocabulary_size),
                output_tokens,
                self._adapters[sequence % len(self._adapters)] if self._adapters else None,
            )
            for sequence in range(self._workload.sequences)
        ]
        started = time.perf_counter()
        finish(self._core, requests)
        return time.perf_counter() - started


def check(workload: Workload, adapters: int) -> None:
    """Raises InvalidWorkload, naming the option."""
    if workload.adapters_in_batch > adapters:
        raise InvalidWorkload(
            f"{workload.adapters_in_batch} adapters in a batch need as many --adapter; "
            f"{adapters} were given.",
            field="adapters_in_batch",
            rule=f"≤ {adapters}",
            value=workload.adapters_in_batch,
        )
    if workload.adapters_in_batch > workload.sequences:
        raise InvalidWorkload(
            f"{workload.sequences} sequences cannot use {workload.adapters_in_batch} adapters.",
            field="adapters_in_batch",
            rule=f"≤ {workload.sequences}",
            value=workload.adapters_in_batch,
        )
