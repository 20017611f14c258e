"""Every option of PEFT's LoraConfig: served with PEFT's logits, or refused by name at upload."""

from pathlib import Path

import pytest
from peft import EvaConfig, LoftQConfig
from peft.tuners.lora.config import (
    BdLoraConfig,
    CordaConfig,
    KasaConfig,
    LoraGAConfig,
    LoraRuntimeConfig,
    MontecloraConfig,
    VeloraConfig,
)

from loraplex.adapters_registry.rejection import AdapterRejected
from tests.engine.driving import request, run
from tests.engine.lora.options import (
    ALL,
    BASES,
    EVERY,
    NO_COPIES,
    SAMPLING,
    Option,
    Served,
    differences_from_peft,
    option,
    save,
)
from tests.engine.models.test_architectures import PROMPT
from tests.engine.tiny import make_engine

pytestmark = [
    # PEFT asks Transformers by a name that Transformers has renamed.
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

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
    "fields that say where an adapter comes from": option(
        target_modules=ALL, base_model_name_or_path="nobody/nothing", revision="v9"
    ),
    "inference_mode": option(target_modules=ALL, inference_mode=True),
    "runtime_config": option(
        target_modules=ALL, runtime_config=LoraRuntimeConfig(ephemeral_gpu_offload=True)
    ),
    "configurations of beginnings that were not taken": option(
        target_modules=ALL,
        eva_config=EvaConfig(rho=1.5),
        corda_config=CordaConfig(corda_method="kpm"),
        lora_ga_config=LoraGAConfig(stable_gamma=2),
        loftq_config=LoftQConfig(loftq_bits=8),
    ),
    "configurations of variants that were not taken": option(
        target_modules=ALL, qalora_group_size=4, megatron_core="megatron.core.elsewhere"
    ),
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


@pytest.mark.parametrize("name", BASES)
def test_what_is_served_answers_what_peft_answers_alone_and_mixed(
    name: str, bases: dict[str, Served], tmp_path: Path
) -> None:
    chosen = {title: one for title, one in SERVED.items() if one.base == name}
    folders = {title: tmp_path / str(seed) for seed, title in enumerate(chosen)}
    for seed, (title, one) in enumerate(chosen.items()):
        save(one, bases[name], folders[title], seed)
    differences = differences_from_peft(bases[name], folders)
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
    # PEFT wraps Megatron's layers only where Megatron can be imported; it saves the same tensors.
    "megatron_config": (
        option(
            target_modules=ALL,
            late={"megatron_config": {"tensor_model_parallel_size": 2}},
        ),
        "Megatron's parallel layers",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_served_is_refused_by_name(
    name: str, bases: dict[str, Served], tmp_path: Path
) -> None:
    chosen, word = REFUSED[name]
    with pytest.raises(AdapterRejected) as rejected:
        save(chosen, bases[chosen.base], tmp_path, 0)
    assert any(word in reason.message for reason in rejected.value.reasons)
