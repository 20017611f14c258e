"""SmolLM2 and its trained adapters answer what PEFT answers, alone and all in one batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor
from transformers import AutoModelForCausalLM

import loraplex.engine.execution.eager as eager
from loraplex.adapters_registry.peft import spec_from_files
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.sampling import SamplingParams
from loraplex.engine.sampling.sampler import sample
from tests.engine.driving import Answer, finish, greedy, request, run, step
from tests.soak import SOAK

# PEFT asks Transformers by a name that Transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")

ADAPTERS = ("bullets", "json", "pirate", "shout")
MARGIN = 1e-3
"""Where the two best logits lie nearer, rounding may choose."""
LOGIT_TOLERANCE = 5e-4
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True)
class Case:
    name: str
    adapter: str | None
    conversation: dict[str, Any]

    @property
    def prompt(self) -> list[int]:
        ids: list[int] = self.conversation["prompt_ids"]
        return ids

    def check(self, answer: Answer) -> None:
        """The tokens are PEFT's up to the first step that rounding may decide."""
        wanted = self.conversation["output_ids"]
        margins = self.conversation["margins"]
        clear = next((i for i, margin in enumerate(margins) if margin <= MARGIN), len(wanted))
        assert answer.token_ids[:clear] == wanted[:clear], self.name
        if clear == len(wanted):
            assert answer.token_ids == wanted
            assert answer.finish_reason == self.conversation["finish_reason"]


@pytest.fixture(scope="module")
def cases(expected: dict[str, Any]) -> list[Case]:
    by_adapter: dict[str | None, list[dict[str, Any]]] = {None: expected["base"]}
    by_adapter |= expected["adapters"]
    return [
        Case(f"{adapter} {number}", adapter, conversation)
        for adapter, conversations in by_adapter.items()
        for number, conversation in enumerate(conversations)
    ]


@pytest.fixture
def seen_logits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Tensor]]:
    """The logits of every sampled row, in order."""
    seen: list[Tensor] = []

    def recording(logits: Tensor, states: Any) -> Any:
        seen.extend(logits.clone())
        return sample(logits, states)

    monkeypatch.setattr(eager, "sample", recording)
    yield seen


@pytest.mark.parametrize("adapter", [None, *ADAPTERS])
def test_greedy_output_alone_is_peft_s(
    adapter: str | None,
    engine: EngineCore,
    adapters: dict[str, AdapterRef],
    cases: list[Case],
    expected: dict[str, Any],
    seen_logits: list[Tensor],
) -> None:
    of_adapter = [case for case in cases if case.adapter == adapter]
    for case in of_adapter if SOAK else of_adapter[:2]:
        seen_logits.clear()
        ref = None if adapter is None else adapters[adapter]
        sampling = greedy(expected["max_tokens"], (2,))
        case.check(run(engine, request("r", case.prompt, sampling, ref))["r"])
        top = case.conversation["first_step_top5"]
        difference = (seen_logits[0][top["ids"]] - torch.tensor(top["logits"])).abs().max()
        assert float(difference) <= LOGIT_TOLERANCE


def test_greedy_output_in_one_mixed_batch_is_peft_s(
    engine: EngineCore,
    adapters: dict[str, AdapterRef],
    cases: list[Case],
    expected: dict[str, Any],
) -> None:
    answers: dict[str, Answer] = {}
    # Neighbours in the queue have different adapters; two arrive before each step.
    waiting = iter(sorted(cases, key=lambda case: case.name[-1]))
    for number, case in enumerate(waiting):
        ref = None if case.adapter is None else adapters[case.adapter]
        engine.add(request(case.name, case.prompt, greedy(expected["max_tokens"], (2,)), ref))
        if number % 2:
            step(engine, answers)
    finish(engine, answers)
    assert len(answers) == len(cases) == 25
    for case in cases:
        case.check(answers[case.name])


def test_every_logit_is_peft_s(
    engine: EngineCore,
    adapters: dict[str, AdapterRef],
    cases: list[Case],
    model_dir: Path,
    seen_logits: list[Tensor],
) -> None:
    """All ranks and patterns meet in `bullets`; whole rows, in the prompt and while decoding."""
    case = next(case for case in cases if case.adapter == "bullets")
    tokens = run(engine, request("r", case.prompt, greedy(6), adapters["bullets"]))["r"].token_ids
    base = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    model = PeftModel.from_pretrained(base, Path(adapters["bullets"].url).parent).eval()
    with torch.inference_mode():
        ids = torch.tensor([case.prompt + tokens[:-1]])
        wanted = model(ids).logits[0, len(case.prompt) - 1 :]
    assert float((torch.stack(seen_logits) - wanted).abs().max()) <= LOGIT_TOLERANCE


def test_a_seeded_request_says_the_same_in_any_batch(
    engine: EngineCore, adapters: dict[str, AdapterRef], cases: list[Case]
) -> None:
    def seeded(name: str, seed: int) -> Any:
        case = cases[seed % len(cases)]
        ref = None if case.adapter is None else adapters[case.adapter]
        sampling = SamplingParams(max_tokens=16, temperature=0.8, top_p=0.95, seed=seed)
        return request(name, case.prompt, sampling, ref)

    alone = run(engine, seeded("7", 7))["7"].token_ids
    together = run(engine, *(seeded(str(seed), seed) for seed in (1, 7, 12, 18, 23)))
    assert together["7"].token_ids == alone
    assert len({tuple(answer.token_ids) for answer in together.values()}) == 5


def test_adapters_cost_their_true_ranks_and_the_base_is_there_once(
    engine: EngineCore,
    model_dir: Path,
    table: ModuleTable,
    tmp_path: Path,
) -> None:
    base = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    config = LoraConfig(r=4, target_modules=ALL, rank_pattern={"q_proj": 3, "down_proj": 9})
    get_peft_model(base, config).save_pretrained(str(tmp_path))
    del base
    weights = tmp_path / "adapter_model.safetensors"
    spec = spec_from_files((tmp_path / "adapter_config.json").read_bytes(), weights, table)

    def use(number: int, ref: AdapterRef | None) -> None:
        run(engine, request(f"{number}", [5, 6, 7], greedy(1), ref))

    namespaces = (TenantNamespace(f"tenant-{number}") for number in range(33))
    refs = [AdapterRef(spec, namespace, str(weights)) for namespace in namespaces]
    use(0, refs.pop())
    process = psutil.Process()
    loads, before = engine.load().adapter_loads, process.memory_info().rss
    for number, ref in enumerate(refs):
        use(number, ref)
    grown = process.memory_info().rss - before
    assert engine.load().adapter_loads - loads == 32
    assert grown <= 3 * 32 * spec.parameters * 4
    pages_bytes = engine.load().adapter_pages * engine.limits().page_bytes
    assert pages_bytes <= 1.35 * engine.load().resident_adapters * spec.parameters * 4


def test_penalties_and_logprobs_work_beside_plain_requests(
    engine: EngineCore, adapters: dict[str, AdapterRef], cases: list[Case]
) -> None:
    plain = next(case for case in cases if case.adapter == "shout")
    shaped = SamplingParams(
        max_tokens=8,
        temperature=0.0,
        repetition_penalty=1.3,
        frequency_penalty=0.5,
        logit_bias={40909: -100.0},
        logprobs=3,
    )
    names = cycle(ADAPTERS)
    answers = run(
        engine,
        request("plain", plain.prompt, greedy(32, (2,)), adapters["shout"]),
        *(request(f"{number}", plain.prompt, shaped, adapters[next(names)]) for number in range(4)),
    )
    plain.check(answers["plain"])
    for number in range(4):
        answer = answers[f"{number}"]
        assert 40909 not in answer.token_ids
        assert all(len(logprob.top) == 3 for logprob in answer.logprobs)
        assert all(logprob.logprob <= logprob.top[0][1] <= 0 for logprob in answer.logprobs)
