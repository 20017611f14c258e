"""Adapters of every shape answer what PEFT answers, on a tiny model."""

from pathlib import Path
from typing import Any

import pytest
import torch

from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.sampling import SamplingParams
from tests.engine.driving import request, run
from tests.engine.models.test_architectures import PROMPT, logprobs_of
from tests.engine.tiny import (
    VOCABULARY,
    describe,
    make_adapter,
    make_engine,
    make_model,
    oracle,
    oracle_logits,
    peft_oracle,
)

# PEFT asks Transformers by a name that Transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS: dict[str, dict[str, Any]] = {
    "one rank": {"r": 1, "lora_alpha": 3, "target_modules": ALL},
    "rank of several tiles": {"r": 24, "lora_alpha": 8, "target_modules": ALL},
    "values alone": {"r": 4, "lora_alpha": 8, "target_modules": ["v_proj"]},
    "rslora": {
        "r": 9,
        "lora_alpha": 4,
        "use_rslora": True,
        "target_modules": ["q_proj", "up_proj"],
    },
    "upper layer alone": {
        "r": 8,
        "lora_alpha": 16,
        "target_modules": ALL,
        "layers_to_transform": [1],
    },
    "patterns": {
        "r": 8,
        "lora_alpha": 16,
        "target_modules": ALL,
        "rank_pattern": {"q_proj": 2, "mlp.down_proj": 12},
        "alpha_pattern": {"down_proj": 24},
    },
}
SAMPLING = SamplingParams(max_tokens=5, temperature=0.0, logprobs=VOCABULARY)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("base"), "llama")


@pytest.fixture(scope="module")
def tiny_table(base: Path) -> ModuleTable:
    return describe(base)


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_answers_what_peft_answers(
    name: str, base: Path, tiny_table: ModuleTable, tmp_path: Path
) -> None:
    ref = make_adapter(tmp_path, base, tiny_table, **ADAPTERS[name])
    engine = make_engine(base, tiny_table)
    answers = run(
        engine,
        request("base", PROMPT[:20], SAMPLING),
        request("adapted", PROMPT, SAMPLING, ref),
        request("short", PROMPT[:5], SAMPLING, ref),
    )
    engine.close()
    adapted = peft_oracle(base, tmp_path)
    cases = {
        "base": (oracle(base), PROMPT[:20]),
        "adapted": (adapted, PROMPT),
        "short": (adapted, PROMPT[:5]),
    }
    for request_id, (model, prompt) in cases.items():
        answer = answers[request_id]
        wanted = oracle_logits(model, prompt, answer.token_ids).log_softmax(-1)
        torch.testing.assert_close(logprobs_of(answer), wanted, atol=2e-4, rtol=0)


def test_loading_evicting_and_loading_again_changes_nothing(
    base: Path, tiny_table: ModuleTable, tmp_path: Path
) -> None:
    refs = [
        make_adapter(tmp_path / str(seed), base, tiny_table, seed, r=16, target_modules=ALL)
        for seed in range(3)
    ]
    # A page is 1,024 elements here and each adapter takes 14 of the 24.
    engine = make_engine(base, tiny_table, pool_bytes=24 * 4096)
    first: dict[int, list[int]] = {}
    for turn in range(3):
        for number, ref in enumerate(refs):
            answer = run(engine, request("r", PROMPT[:9], SAMPLING, ref))["r"]
            assert answer.token_ids == first.setdefault(number, answer.token_ids), turn
    engine.close()
    assert engine.load().adapter_loads == 9
    assert len({tuple(tokens) for tokens in first.values()}) == 3


def test_bfloat16_runs_the_same_code(base: Path, tiny_table: ModuleTable, tmp_path: Path) -> None:
    ref = make_adapter(tmp_path, base, tiny_table, r=24, target_modules=ALL, lora_alpha=4)
    requests = [request("base", PROMPT[:20], SAMPLING), request("adapted", PROMPT, SAMPLING, ref)]
    seen = {}
    for dtype in ("float32", "bfloat16"):
        engine = make_engine(base, tiny_table, compute_dtype=dtype)
        seen[dtype] = run(engine, *requests)
        engine.close()
    for name in ("base", "adapted"):
        exact, narrow = (logprobs_of(seen[dtype][name])[0].exp() for dtype in seen)
        assert float((exact - narrow).abs().sum()) < 0.3
