"""PEFT itself is the oracle: what it would do with an adapter is what the spec says."""

import json
import tempfile
import warnings
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loraplex.adapters_registry.peft import spec_from_files
from tests.adapters_registry.samples import LINEARS, TINY
from tests.soak import examples

PATTERNS = (
    "q_proj",
    "self_attn.q_proj",
    r"layers\.1\.self_attn\..*",
    ".*mlp.*",
    "model.layers.0.mlp.up_proj",
    "^model.layers.0.self_attn.v_proj",
    "proj",
    r"[qk]_proj",
    "layers.0.self_attn.o_proj|down_proj",
)
lists_of_names = st.lists(
    st.sampled_from([*LINEARS, "model.layers.1.mlp.up_proj", "mlp.down_proj"]),
    min_size=1,
    max_size=5,
    unique=True,
)
targets = lists_of_names | st.sampled_from(
    ["all-linear", r".*\.(q|v)_proj", r"model\.layers\.1\..*", r".*layers\.0\.mlp\.(up|gate)_proj"]
)


@st.composite
def lora_fields(draw: st.DrawFn) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "r": draw(st.integers(1, 9)),
        "lora_alpha": draw(st.integers(1, 64)),
        "use_rslora": draw(st.booleans()),
        "target_modules": draw(targets),
        "rank_pattern": draw(
            st.dictionaries(st.sampled_from(PATTERNS), st.integers(1, 9), max_size=3)
        ),
        "alpha_pattern": draw(
            st.dictionaries(st.sampled_from(PATTERNS), st.integers(1, 64), max_size=3)
        ),
        "exclude_modules": draw(st.sampled_from([None, ["k_proj"], r".*layers\.0\.mlp.*"])),
        "fan_in_fan_out": draw(st.booleans()),
        "init_lora_weights": draw(st.sampled_from([True, False, "gaussian"])),
    }
    if not isinstance(fields["target_modules"], str) and draw(st.booleans()):
        fields["layers_to_transform"] = draw(st.sampled_from([0, 1, [1], [0, 1]]))
        fields["layers_pattern"] = draw(st.sampled_from([None, "layers", ["h", "layers"]]))
    return fields


@cache
def tiny_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
        )
    )


def adapted(fields: dict[str, Any], dtype: Any) -> Any | None:
    """PEFT's model with random weights; None when PEFT finds nothing to adapt."""
    from peft import LoraConfig, get_peft_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = get_peft_model(
                deepcopy(tiny_llama()), LoraConfig(task_type="CAUSAL_LM", **fields)
            )
        except ValueError:
            return None
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.data = torch.randn_like(parameter).to(dtype)
    return model


@settings(max_examples=examples(25, 1000), deadline=None)
@given(lora_fields(), st.sampled_from(["float32", "float16", "bfloat16"]))
def test_ranks_scales_and_modules_are_pefts(fields: dict[str, Any], dtype: str) -> None:
    model = adapted(fields, getattr(torch, dtype))
    assume(model is not None)
    assert model is not None
    with tempfile.TemporaryDirectory() as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.save_pretrained(folder)
        # PEFT writes a file with sorted keys, but takes patterns in whatever order a file has.
        written = json.loads(Path(folder, "adapter_config.json").read_bytes()) | fields
        weights = Path(folder, "adapter_model.safetensors")
        spec = spec_from_files(json.dumps(written).encode(), weights, TINY)
    expected = {
        name.removeprefix("base_model.model."): (module.r["default"], module.scaling["default"])
        for name, module in model.named_modules()
        if hasattr(module, "lora_A")
    }
    assert {module.path: (module.rank, module.scale) for module in spec.modules} == expected
    assert {module.a.dtype for module in spec.modules} == {
        {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}[dtype]
    }


def test_every_field_peft_knows_is_known_here() -> None:
    """A new PEFT must not turn every upload into one with unknown fields that are set."""
    from dataclasses import fields

    from peft import LoraConfig

    from loraplex.adapters_registry.peft_config import parse_config

    config: Any = LoraConfig(target_modules=["q_proj"])
    written = config.to_dict()
    assert {field.name for field in fields(LoraConfig)} >= written.keys()
    written["target_modules"] = sorted(written["target_modules"])
    parse_config(json.dumps(written).encode())
