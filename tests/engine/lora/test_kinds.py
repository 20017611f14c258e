"""Every option of PEFT's LoraConfig: served with PEFT's logits, or refused by name at upload."""

import warnings
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora.config import BdLoraConfig, KasaConfig, MontecloraConfig, VeloraConfig

from loraplex.adapters_registry.peft import spec_from_files
from loraplex.adapters_registry.peft_fields import IGNORED, NOT_SERVED
from loraplex.adapters_registry.rejection import AdapterRejected
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.sampling import SamplingParams
from tests.engine.driving import Answer, request, run
from tests.engine.models.test_architectures import PROMPT, logprobs_of
from tests.engine.tiny import (
    VOCABULARY,
    describe,
    make_engine,
    make_model,
    oracle,
    oracle_logits,
    peft_oracle,
)

pytestmark = [
    # PEFT asks Transformers by a name that Transformers has renamed.
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
EVERY = [*ALL, "embed_tokens", "lm_head"]
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "tied": ("llama", {"tie_word_embeddings": True}),
    "biased": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
}


@dataclass(frozen=True)
class Option:
    """A way to make an adapter: of which base, with which fields, saved how."""

    base: str
    config: dict[str, Any]
    saved: dict[str, Any] = field(default_factory=dict)


def option(base: str = "llama", *, saved: dict[str, Any] | None = None, **config: Any) -> Option:
    return Option(base, {"r": 5, "lora_alpha": 7, **config}, saved or {})


NO_COPIES = {"save_embedding_layers": False}
SERVED: dict[str, Option] = {
    "target_modules as a list": option(target_modules=ALL),
    "target_modules as a pattern": option(target_modules=r".*\.(q|down)_proj"),
    "target_modules as all-linear": option(target_modules="all-linear"),
    "exclude_modules": option(target_modules="all-linear", exclude_modules=["k_proj"]),
    "layers_to_transform": option(target_modules=ALL, layers_to_transform=[1]),
    "layers_pattern": option(target_modules=ALL, layers_to_transform=[0], layers_pattern="layers"),
    "r of several tiles": option(target_modules=ALL, r=37),
    "rank_pattern and alpha_pattern": option(
        target_modules=EVERY,
        rank_pattern={"q_proj": 2, "mlp.down_proj": 12, "lm_head": 3},
        alpha_pattern={"down_proj": 24, "embed_tokens": 2},
    ),
    "use_rslora": option(target_modules=EVERY, use_rslora=True),
    "lora_dropout": option(target_modules=ALL, lora_dropout=0.4),
    "fan_in_fan_out": option(target_modules=ALL, fan_in_fan_out=True),
    "init_lora_weights": option(target_modules=ALL, init_lora_weights="gaussian"),
    "init_lora_weights orthogonal": option(target_modules=ALL, init_lora_weights="orthogonal", r=4),
    "init_lora_weights mica": option(target_modules=ALL, init_lora_weights="mica"),
    "init_lora_weights eva": option(target_modules=ALL, init_lora_weights="eva"),
    "task_type": option(target_modules=ALL, task_type="CAUSAL_LM"),
    "embed_tokens": option(target_modules=["embed_tokens"]),
    "embed_tokens without copies": option(target_modules=["embed_tokens"], saved=NO_COPIES),
    "embed_tokens, tied": option("tied", target_modules=["embed_tokens"]),
    "lm_head": option(target_modules=["lm_head"]),
    "lm_head, tied": option("tied", target_modules=["lm_head"], r=20),
    "all that can be adapted": option(target_modules=EVERY),
    "all that can be adapted, tied": option("tied", target_modules=EVERY, r=17),
    "ensure_weight_tying": option("tied", target_modules=EVERY, ensure_weight_tying=True),
    "ensure_weight_tying of the head": option(
        "tied", target_modules=["lm_head"], ensure_weight_tying=True
    ),
    "ensure_weight_tying without ties": option(target_modules=EVERY, ensure_weight_tying=True),
    "bias of nothing that has one": option(target_modules=ALL, bias="all"),
    "bias lora_only": option("biased", target_modules=["q_proj", "up_proj"], bias="lora_only"),
    "bias all": option("biased", target_modules=["k_proj", "down_proj"], bias="all"),
    "bias all of qwen2": option("qwen2", target_modules=["o_proj", "lm_head"], bias="all"),
    "lora_bias": option(target_modules=[*ALL, "lm_head"], lora_bias=True),
    "lora_bias of linears with biases": option(
        "biased", target_modules=ALL, lora_bias=True, bias="lora_only"
    ),
    "use_dora": option(target_modules=ALL, use_dora=True),
    "use_dora with all that can be adapted": option(
        "tied", target_modules=EVERY, use_dora=True, use_rslora=True, r=18
    ),
    "use_dora of linears with biases": option(
        "biased", target_modules=["q_proj", "v_proj", "gate_proj"], use_dora=True, bias="all"
    ),
    "use_dora of linears whose biases stay": option("biased", target_modules=ALL, use_dora=True),
}

SAMPLING = SamplingParams(max_tokens=4, temperature=0.0, logprobs=VOCABULARY)


@dataclass(frozen=True)
class Served:
    directory: Path
    table: ModuleTable


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Served]:
    found = {}
    for name, (model_type, changes) in BASES.items():
        directory = make_model(tmp_path_factory.mktemp(name), model_type, **changes)
        found[name] = Served(directory, describe(directory))
    return found


def save(chosen: Option, base: Served, directory: Path, seed: int) -> AdapterRef:
    """An adapter that PEFT made, trained by chance, and saved; resolved as an upload would be."""
    torch.manual_seed(seed)
    config = LoraConfig(**{"init_lora_weights": False, **chosen.config})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = get_peft_model(oracle(base.directory), config)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "magnitude" in name:
                    parameter.mul_(1 + 0.3 * torch.randn_like(parameter))
                elif parameter.requires_grad and not torch.any(parameter):
                    parameter.normal_(std=0.3)
                elif parameter.requires_grad and name.endswith("bias"):
                    parameter.add_(0.5 * torch.randn_like(parameter))
        model.save_pretrained(str(directory), **chosen.saved)
    weights = directory / "adapter_model.safetensors"
    config_bytes = (directory / "adapter_config.json").read_bytes()
    spec = spec_from_files(config_bytes, weights, base.table)
    return AdapterRef(spec=spec, namespace=TenantNamespace("tests"), url=str(weights))


def difference(answer: Answer, model: Any) -> float:
    """The largest, of log-probabilities."""
    wanted = oracle_logits(model, PROMPT[:19], answer.token_ids).log_softmax(-1)
    return float((logprobs_of(answer) - wanted).abs().max())


@pytest.mark.parametrize("name", BASES)
def test_what_is_served_answers_what_peft_answers_alone_and_mixed(
    name: str, bases: dict[str, Served], tmp_path: Path
) -> None:
    base = bases[name]
    chosen = {title: one for title, one in SERVED.items() if one.base == name}
    refs = {
        title: save(one, base, tmp_path / str(seed), seed)
        for seed, (title, one) in enumerate(chosen.items())
    }
    engine = make_engine(base.directory, base.table, pool_bytes=2**23, max_step_tokens=48)
    alone = {
        title: run(engine, request("one", PROMPT[:19], SAMPLING, ref))["one"]
        for title, ref in refs.items()
    }
    mixed = run(
        engine,
        request("base", PROMPT[:19], SAMPLING),
        *(request(title, PROMPT[:19], SAMPLING, ref) for title, ref in refs.items()),
    )
    engine.close()
    differences = {"base": difference(mixed["base"], oracle(base.directory))}
    for seed, title in enumerate(refs):
        adapted = peft_oracle(base.directory, tmp_path / str(seed))
        differences[title] = difference(alone[title], adapted)
        differences[f"{title}, mixed"] = difference(mixed[title], adapted)
    assert max(differences.values()) < 5e-4, differences


def test_an_adapter_of_every_kind_is_loaded_again_as_it_was(
    bases: dict[str, Served], tmp_path: Path
) -> None:
    base = bases["tied"]
    chosen = SERVED["use_dora with all that can be adapted"]
    refs = [save(chosen, base, tmp_path / str(seed), seed) for seed in range(3)]
    # Small pages: every matrix lies in several, and one adapter has to go for another.
    engine = make_engine(base.directory, base.table, pool_bytes=140 * 1024)
    first: dict[int, list[int]] = {}
    for _ in range(2):
        for number, ref in enumerate(refs):
            answer = run(engine, request("r", PROMPT[:9], SAMPLING, ref))["r"]
            assert answer.token_ids == first.setdefault(number, answer.token_ids)
    engine.close()
    assert engine.load().adapter_loads == 6


REFUSED: dict[str, tuple[Option, str]] = {
    "modules_to_save": (option(target_modules=ALL, modules_to_save=["lm_head"]), "modules_to_save"),
    "trainable_token_indices": (
        option(target_modules=ALL, trainable_token_indices=[3, 4]),
        "trainable_token_indices",
    ),
    "layer_replication": (
        option(target_modules=ALL, layer_replication=[(0, 2), (1, 2)]),
        "layer_replication",
    ),
    "target_parameters": (
        option(target_modules=[], target_parameters=["q_proj.weight"]),
        "target_parameters",
    ),
    "alora_invocation_tokens": (
        option(target_modules=ALL, alora_invocation_tokens=[5, 6], task_type="CAUSAL_LM"),
        "alora_invocation_tokens",
    ),
    "init_lora_weights": (option(target_modules=ALL, init_lora_weights="pissa"), "pissa"),
    "use_qalora": (option(target_modules=ALL, use_qalora=True, qalora_group_size=4), "QALoRA"),
    "use_bdlora": (
        option(
            target_modules=ALL,
            r=6,
            use_bdlora=BdLoraConfig(
                target_modules_bd_a=["o_proj", "down_proj"],
                target_modules_bd_b=["q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"],
                nblocks=2,
            ),
        ),
        "block-diagonal",
    ),
    "kasa_config": (option(target_modules=ALL, kasa_config=KasaConfig()), "KaSA"),
    "monteclora_config": (
        option(target_modules=ALL, monteclora_config=MontecloraConfig()),
        "MonteCLoRA",
    ),
    "velora_config": (
        option(target_modules=ALL, velora_config=VeloraConfig(num_groups=4)),
        "VeLoRA",
    ),
    "init_lora_weights lora_ga": (
        option(target_modules=ALL, init_lora_weights="lora_ga"),
        "lora_ga",
    ),
    "init_lora_weights olora": (option(target_modules=ALL, init_lora_weights="olora"), "olora"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_served_is_refused_by_name(
    name: str, bases: dict[str, Served], tmp_path: Path
) -> None:
    chosen, word = REFUSED[name]
    with pytest.raises(AdapterRejected) as rejected:
        save(chosen, bases[chosen.base], tmp_path, 0)
    assert any(word in reason.message for reason in rejected.value.reasons)


def test_every_field_of_peft_is_served_refused_or_harmless() -> None:
    known = {name.split()[0] for name in SERVED} | REFUSED.keys() | IGNORED | NOT_SERVED.keys()
    known |= {"peft_type", "lora_alpha", "alpha_pattern"}
    assert {one.name for one in fields(LoraConfig)} <= known
