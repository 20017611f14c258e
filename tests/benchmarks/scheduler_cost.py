"""What a step costs beside the model: plan, assembly and update, on a device that does nothing.

Prints one JSON line for each case: 256 requests decode while 1,000 wait, of 64 tenants, with 32
adapters in the batch or none, for prompts of 128 and of 4,096 tokens. What they wait for is a free
place (`places`) or free pages (`pages`). Milliseconds of this thread's CPU time a step; `median_ms`
is all of `step()`, its three parts are medians of their own.

    python tests/benchmarks/scheduler_cost.py
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import torch

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.core import EngineCore
from loraplex.engine.execution.device import Device
from loraplex.engine.lora.layout import plan_layout, tile_rank
from loraplex.engine.lora.modules import LINEARS, ModuleNumbers
from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.memory.pool import PagePool
from loraplex.engine.protocol.adapter import AdapterModule, AdapterRef, AdapterSpec, TensorRef
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.protocol.generation import GenerationRequest, Priority
from loraplex.engine.protocol.identity import Digest, TenantNamespace, digest_of_bytes
from loraplex.engine.protocol.module_table import LinearModule, ModuleTable
from loraplex.engine.protocol.sampling import SamplingParams
from loraplex.engine.sampling.sampler import SampledToken
from loraplex.engine.scheduler.assembly import AssembledStep, assemble
from loraplex.engine.scheduler.plan import StepPlan

RUNNING: Final = 256
WAITING: Final = 1000
TENANTS: Final = 64
ADAPTERS: Final = 32
OUTPUT_TOKENS: Final = 2048
LAYERS: Final = 30
FEATURES: Final = 8

BASE: Final = Digest("sha256:" + "0" * 64)
TABLE: Final = ModuleTable(
    base_name="nothing",
    base_digest=BASE,
    architecture="Nothing",
    layers=LAYERS,
    hidden_size=FEATURES,
    vocabulary_size=50_000,
    max_model_tokens=8192,
    eos_token_ids=(),
    modules=tuple(
        LinearModule(f"model.layers.{layer}.{name}", layer, name, FEATURES, FEATURES)
        for layer in range(LAYERS)
        for name in LINEARS
    ),
)


@dataclass
class IdleExecutor:
    """Assembles every step and computes none."""

    geometry: PageGeometry
    tile_rank: int
    assembly_seconds: list[float] = field(default_factory=list)

    def submit(self, plan: StepPlan) -> "IdleStep":
        began_at = time.thread_time()
        step = assemble(plan.rows, self.geometry, self.tile_rank, torch.device("cpu"))
        self.assembly_seconds.append(time.thread_time() - began_at)
        return IdleStep(step)


@dataclass(frozen=True)
class IdleStep:
    step: AssembledStep

    def outcomes(self) -> list[SampledToken | DomainError]:
        return [SampledToken(7, None)] * len(self.step.sampled)


class LocalFiles(AdapterSource):
    def fetch(self, ref: AdapterRef) -> Path:
        return Path(ref.url)


def adapter(folder: Path, number: int) -> AdapterRef:
    """Rank 4 on every linear."""
    matrix = np.full((4, FEATURES), number, dtype="<f4")
    count = len(TABLE.modules)
    data = matrix.tobytes() * 2 * count
    (folder / f"{number}").write_bytes(data)
    size = matrix.nbytes
    modules = tuple(
        AdapterModule(
            path=linear.path,
            layer=linear.layer,
            linear=linear.linear,
            rank=4,
            scale=1.0,
            a=TensorRef("a", "F32", (4, FEATURES), 2 * place * size, (2 * place + 1) * size),
            b=TensorRef("b", "F32", (FEATURES, 4), (2 * place + 1) * size, (2 * place + 2) * size),
        )
        for place, linear in enumerate(TABLE.modules)
    )
    digest = digest_of_bytes(f"{number}".encode())
    spec = AdapterSpec(digest, BASE, digest_of_bytes(data), len(data), modules)
    return AdapterRef(spec, tenant(number), str(folder / f"{number}"))


def tenant(number: int) -> TenantNamespace:
    return TenantNamespace(f"tenant-{number % TENANTS}")


def geometry_of(pages: int, block_tokens: int) -> PageGeometry:
    return PageGeometry(pages, LAYERS, block_tokens, kv_heads=1, head_size=2)


def pages_of(ref: AdapterRef, block_tokens: int) -> int:
    numbers, elements = ModuleNumbers(TABLE), geometry_of(1, block_tokens).page_elements
    return plan_layout(ref.spec, numbers, elements, tile_rank(elements, numbers.widest)).pages


def engine_of(
    prompt_tokens: int, adapters: list[AdapterRef], waits_for: str
) -> tuple[EngineCore, IdleExecutor]:
    # Where the others wait for pages, whoever runs has one page to grow by: enough for all steps.
    block_tokens = 512 if waits_for == "pages" else 16
    output_tokens = block_tokens if waits_for == "pages" else OUTPUT_TOKENS
    blocks = -(-(prompt_tokens + output_tokens) // block_tokens)
    adapter_pages = sum(pages_of(ref, block_tokens) for ref in adapters)
    geometry = geometry_of(RUNNING * blocks + adapter_pages, block_tokens)
    pool = PagePool(geometry.pages, geometry.page_elements, torch.float32, torch.device("cpu"))
    ranks = tile_rank(geometry.page_elements, ModuleNumbers(TABLE).widest)
    executor = IdleExecutor(geometry, ranks)
    config = EngineConfig(
        model_dir="",
        base_name="nothing",
        block_tokens=block_tokens,
        max_step_tokens=2**21,
        max_running_requests=RUNNING if waits_for == "places" else RUNNING + WAITING,
        adapter_cache_dir="",
    )
    return EngineCore(
        config, TABLE, LocalFiles(), Device(executor, geometry, pool, ranks)
    ), executor


def measure(prompt_tokens: int, adapters: list[AdapterRef], waits_for: str, steps: int) -> None:
    engine, executor = engine_of(prompt_tokens, adapters, waits_for)
    for number, ref in enumerate(adapters):  # loads come first, so that nobody runs meanwhile
        engine.add(ask(-1 - number, 1, 1, ref))
    run_until(engine, lambda outputs: not engine.has_work)
    for number in range(RUNNING + WAITING):
        # They do not all come to the end of a block in the same step.
        length = prompt_tokens - number % 16
        if waits_for == "pages" and number >= RUNNING:
            length += 2048  # so that no gap between the others would hold it
        chosen = adapters[number % len(adapters)] if adapters else None
        engine.add(ask(number, length, OUTPUT_TOKENS, chosen))
        if number + 1 == RUNNING:
            run_until(engine, lambda outputs: outputs == RUNNING)
    seconds: dict[str, list[float]] = {"step": [], "plan": []}
    watch_plans(engine, seconds["plan"])
    for _ in range(32):
        engine.step()
    for one in (seconds["plan"], executor.assembly_seconds):
        one.clear()
    for _ in range(steps):
        began_at = time.thread_time()
        outputs = engine.step()
        seconds["step"].append(time.thread_time() - began_at)
        assert len(outputs) == RUNNING
    load = engine.load()
    assert (load.running_requests, load.waiting_requests) == (RUNNING, WAITING)
    parts = (seconds["step"], seconds["plan"], executor.assembly_seconds)
    updates = [step - plan - assembly for step, plan, assembly in zip(*parts, strict=True)]
    line = {
        "prompt_tokens": prompt_tokens,
        "adapters": len(adapters),
        "waits_for": waits_for,
        "running": RUNNING,
        "waiting": WAITING,
        "median_ms": milliseconds(seconds["step"]),
        "p90_ms": round(1e3 * statistics.quantiles(seconds["step"], n=10)[-1], 3),
        "plan_ms": milliseconds(seconds["plan"]),
        "assembly_ms": milliseconds(executor.assembly_seconds),
        "update_ms": milliseconds(updates),
    }
    print(json.dumps(line), flush=True)  # noqa: T201
    engine.close()


def ask(
    number: int, prompt_tokens: int, output_tokens: int, adapter: AdapterRef | None
) -> GenerationRequest:
    return GenerationRequest(
        request_id=f"r{number}",
        namespace=tenant(number) if adapter is None else adapter.namespace,
        prompt_token_ids=[abs(number), *range(5, 5 + prompt_tokens - 1)],
        sampling=SamplingParams(max_tokens=output_tokens, temperature=0.0),
        adapter=adapter,
        priority=Priority(number % 3),
    )


def run_until(engine: EngineCore, is_reached: Callable[[int], bool]) -> None:
    """Step until the number of outputs of a step says so; at once where there is nothing to do."""
    while engine.has_work and engine.wait_for_work(60):
        if is_reached(len(engine.step())):
            return


def watch_plans(engine: EngineCore, seconds: list[float]) -> None:
    scheduler = engine._scheduler
    plan = scheduler.plan

    def timed() -> StepPlan:
        began_at = time.thread_time()
        planned = plan()
        seconds.append(time.thread_time() - began_at)
        return planned

    scheduler.plan = timed  # type: ignore[method-assign]


def milliseconds(seconds: list[float]) -> float:
    return round(1e3 * statistics.median(seconds), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150, help="at most 160")
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        adapters = [adapter(Path(folder), number) for number in range(ADAPTERS)]
        for chosen in ([], adapters):
            for waits_for in ("places", "pages"):
                for prompt_tokens in (128, 4096):
                    measure(prompt_tokens, chosen, waits_for, steps)


if __name__ == "__main__":
    main()
