"""An engine in this process, set up as `loraplex serve` sets up a worker's, and how to drive it."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

from loraplex.engine.benchmarks.local_adapters import NAMESPACE, LocalAdapters
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.errors import EngineFailure
from loraplex.engine.protocol.generation import FinishReason, GenerationRequest, RequestOutput
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.sampling import SamplingParams

STUCK_SECONDS: Final = 60.0
"""An engine with work that has nothing to do for so long will never have."""

_TOKEN_SPREAD: Final = 40_000
_FIRST_TOKEN: Final = 100


def engine_config(model_dir: Path, table: ModuleTable, **settings: Any) -> EngineConfig:
    """EngineConfig's defaults but for `settings`; None stands for the default."""
    return EngineConfig(
        model_dir=str(model_dir),
        base_name=table.base_name,
        adapter_cache_dir=str(model_dir),  # LocalAdapters keeps nothing
        **{name: value for name, value in settings.items() if value is not None},
    )


@contextmanager
def local_engine(config: EngineConfig, table: ModuleTable) -> Iterator[EngineCore]:
    """An engine over local adapters. Add, step and cancel on one thread.

    Raises UnsupportedModel or PoolTooSmall.
    """
    core = EngineCore(config, table, LocalAdapters())
    try:
        yield core
    finally:
        core.close()


def prompt(sequence: int, tokens: int, vocabulary_size: int) -> list[int]:
    """The peer's prompt of a sequence; on a small vocabulary its ids wrap around."""
    spread = range(tokens)
    return [
        ((sequence * 37 + position * 11) % _TOKEN_SPREAD + _FIRST_TOKEN) % vocabulary_size
        for position in spread
    ]


def greedy_request(
    request_id: str,
    prompt_token_ids: Sequence[int],
    output_tokens: int,
    adapter: AdapterRef | None = None,
    *,
    use_prefix_cache: bool = False,
) -> GenerationRequest:
    """A request for exactly so many tokens: greedy, and no token ends it.

    Repeats send the same prompts, so that a cache would make each but the first too fast.
    """
    return GenerationRequest(
        request_id=request_id,
        namespace=NAMESPACE,
        prompt_token_ids=list(prompt_token_ids),
        sampling=SamplingParams(max_tokens=output_tokens, temperature=0.0),
        adapter=adapter,
        use_prefix_cache=use_prefix_cache,
    )


def step(core: EngineCore) -> list[RequestOutput]:
    """One step, as soon as there is something to do.

    Raises EngineFailure when nothing ever comes, and what a request failed with: a benchmark
    measures no failures.
    """
    if not core.wait_for_work(STUCK_SECONDS):
        raise EngineFailure(f"The engine has work and did nothing for {STUCK_SECONDS:.0f} s.")
    outputs = core.step()
    for output in outputs:
        if output.finish_reason is FinishReason.ERROR:
            assert output.failure is not None, "an error says what it is"
            raise output.failure.to_error()
    return outputs


def keep_busy(
    core: EngineCore, requests: Iterable[GenerationRequest], concurrency: int
) -> tuple[float, int]:
    """A closed loop: as one of `concurrency` requests ends, the next begins.

    The seconds it took, and the output tokens it gave.
    """
    waiting = iter(requests)
    tokens = 0
    started = time.perf_counter()
    for request in islice(waiting, concurrency):
        core.add(request)
    while core.has_work:
        for output in step(core):
            tokens += len(output.token_ids)
            if output.finish_reason is not None:
                for request in islice(waiting, 1):
                    core.add(request)
    return time.perf_counter() - started, tokens


def finish(
    core: EngineCore,
    requests: Sequence[GenerationRequest],
    on_output: Callable[[RequestOutput], None] = lambda _: None,
) -> None:
    """Add requests that arrive together and step until every one has ended."""
    for request in requests:
        core.add(request)
    while core.has_work:
        for output in step(core):
            on_output(output)
