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
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterTooLarge, AdapterUnavailable, PromptTooLong
from loraplex.engine.protocol.messages import FinishReason
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.sampling import SamplingParams
from tests.engine.driving import Answer, request, run
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


class Source(AdapterSource):
    """Serves local files unless told to fail."""

    is_failing = False

    def fetch(self, ref: AdapterRef) -> Path:
        if self.is_failing:
            raise AdapterUnavailable("The store is gone.")
        return Path(ref.url)


class CoreMachine(RuleBasedStateMachine):
    """A pool of 18 pages, in which few requests fit side by side.

    The loader has no threads: the machine says when a load ends, so that every run repeats.
    """

    @initialize()
    def start(self) -> None:
        self.source, here = Source(), world()
        self.engine: EngineCore = make_engine(
            here.base,
            here.table,
            pool_bytes=18 * PAGE_BYTES,
            max_running_requests=5,
            adapters=self.source,
            loader_threads=0,
        )
        self.ended_loads = 0
        self.wanted: dict[str, Case] = {}
        self.answers: dict[str, Answer] = {}
        self.cancelled: set[str] = set()

    @property
    def live(self) -> list[str]:
        ended = {name for name, answer in self.answers.items() if answer.finish_reason}
        return [name for name in self.wanted if name not in ended]

    @rule(number=st.integers(0, 1000), tokens=st.integers(1, 9))
    def arrive(self, number: int, tokens: int) -> None:
        case = world().cases[number % len(world().cases)]
        name = f"r{len(self.wanted)}"
        sampling = SamplingParams(max_tokens=tokens, temperature=0.0)
        self.engine.add(request(name, case.prompt, sampling, case.ref))
        self.wanted[name] = Case(case.prompt, case.ref, case.token_ids[:tokens])

    @rule()
    def refuse_what_never_fits(self) -> None:
        with pytest.raises(PromptTooLong):
            self.engine.add(request("x", [5] * 70, SamplingParams(max_tokens=9)))
        with pytest.raises(AdapterTooLarge):
            self.engine.add(request("x", [5], SamplingParams(max_tokens=1), world().too_large))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.live))
        self.engine.cancel(name)
        self.cancelled.add(name)

    @property
    def unfinished_loads(self) -> int:
        return self.engine._residency.loads_in_flight - self.ended_loads

    @precondition(lambda self: self.unfinished_loads)
    @rule(fails=st.sampled_from([False, False, False, True]))
    def end_a_load(self, fails: bool) -> None:
        self.source.is_failing = fails
        self.engine._loader.run_one()
        self.ended_loads += 1

    @rule(steps=st.integers(1, 6))
    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        self.ended_loads = 0
        for output in self.engine.step():
            self.answers.setdefault(output.request_id, Answer()).take(output)
        self.engine.check_integrity()

    @invariant()
    def tokens_are_those_of_the_request_alone(self) -> None:
        for name, answer in getattr(self, "answers", {}).items():
            wanted = list(self.wanted[name].token_ids)
            assert answer.token_ids == wanted[: len(answer.token_ids)]

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        while self.engine.has_work:
            if not self.engine.wait_for_work(0):
                assert self.unfinished_loads, "a request is stuck"
                self.end_a_load(fails=False)
            self.step()
        for name, case in self.wanted.items():
            answer = self.answers[name]
            assert answer.finish_reason is not None, "every request ends"
            if answer.finish_reason is FinishReason.LENGTH:
                assert answer.token_ids == list(case.token_ids)
            elif answer.finish_reason is FinishReason.CANCELLED:
                assert name in self.cancelled
            else:
                assert case.ref is not None, "only a failed load may fail a request"
        while self.unfinished_loads:
            self.end_a_load(fails=False)
        self.step()
        self.engine.check_integrity()
        load = self.engine.load()
        assert load.kv_pages == 0
        assert load.free_pages + load.adapter_pages + load.cached_pages == 18
        self.engine.close()


TestCore = CoreMachine.TestCase
TestCore.settings = settings(
    max_examples=settings().max_examples // 5,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
