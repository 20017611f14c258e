"""The core with a real model under arrivals, cancels, preemptions and adapter churn.

The fake device of `test_core_machine` finds more and is faster; this one adds the kernels.
"""

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterTooLarge, PromptTooLong
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.sampling import SamplingParams
from tests.engine.core_rules import PAGES, CoreRules, Wanted
from tests.engine.driving import request, run
from tests.engine.tiny import VOCABULARY, describe, make_adapter, make_engine, make_model

# PEFT asks Transformers by a name that Transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")

PAGE_BYTES = 4 * 2 * 2 * 8 * 4
MARGIN = 1e-3
"""Steps whose two best logits lie nearer may differ from batch to batch."""


@dataclass(frozen=True)
class Case:
    """A request and the tokens it gets when it runs alone."""

    prompt: tuple[int, ...]
    ref: AdapterRef | None
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class World:
    base: Path
    table: ModuleTable
    cases: tuple[Case, ...]
    too_large: AdapterRef


@cache
def world() -> World:
    """A tiny model, adapters of three sizes, and clear-cut prompts of all lengths."""
    folder = Path(tempfile.mkdtemp())
    base = make_model(folder / "base", "llama", num_hidden_layers=1)
    table = describe(base)
    shapes = [(2, ["q_proj"]), (4, ["q_proj", "v_proj"]), (8, ["o_proj"]), (3, ["down_proj"])]
    refs = [
        make_adapter(folder / f"{rank}", base, table, rank, r=rank, target_modules=linears)
        for rank, linears in shapes
    ]
    too_large = make_adapter(folder / "large", base, table, r=64, target_modules=["up_proj"])
    engine = make_engine(base, table)
    cases = []
    generator = torch.manual_seed(11)
    for length in (1, 2, 4, 5, 8, 13, 20, 31):
        for ref in (None, *refs):
            prompt = torch.randint(3, VOCABULARY, (length,), generator=generator).tolist()
            sampling = SamplingParams(max_tokens=9, temperature=0.0, logprobs=2)
            answer = run(engine, request("r", prompt, sampling, ref))["r"]
            margins = [one.top[0][1] - one.top[1][1] for one in answer.logprobs]
            if min(margins) > MARGIN:
                cases.append(Case(tuple(prompt), ref, tuple(answer.token_ids)))
    engine.close()
    assert len(cases) > 20
    return World(base, table, tuple(cases), too_large)


class CoreMachine(CoreRules):
    @initialize()
    def start(self) -> None:
        here = world()
        self.engine = make_engine(
            here.base,
            here.table,
            pool_bytes=PAGES * PAGE_BYTES,
            max_running_requests=5,
            adapters=self.source,
            loader_threads=0,
        )

    @rule(number=st.integers(0, 1000), tokens=st.integers(1, 9))
    def arrive(self, number: int, tokens: int) -> None:
        case = world().cases[number % len(world().cases)]
        name = f"r{len(self.wanted)}"
        sampling = SamplingParams(max_tokens=tokens, temperature=0.0)
        self.engine.add(request(name, case.prompt, sampling, case.ref))
        self.wanted[name] = Wanted(case.ref, case.token_ids[:tokens])

    @rule()
    def refuse_what_never_fits(self) -> None:
        with pytest.raises(PromptTooLong):
            self.engine.add(request("x", [5] * 70, SamplingParams(max_tokens=9)))
        with pytest.raises(AdapterTooLarge):
            self.engine.add(request("x", [5], SamplingParams(max_tokens=1), world().too_large))


TestCore = CoreMachine.TestCase
TestCore.settings = settings(
    max_examples=settings().max_examples // 5,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
