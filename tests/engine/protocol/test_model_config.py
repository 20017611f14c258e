"""A config is served or refused by name; none crashes or is served by half."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.protocol.errors import UnsupportedModel
from loraplex.engine.protocol.model_config import ModelConfig, read_model_config

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 100,
}


def read(directory: Path, **changes: Any) -> ModelConfig:
    (directory / "config.json").write_text(json.dumps(LLAMA | changes))
    return read_model_config(directory)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("architectures", ["GPT2LMHeadModel"]),
        ("architectures", ["LlamaForCausalLM", "MistralForCausalLM"]),
        ("architectures", []),
        ("architectures", "LlamaForCausalLM"),
        ("hidden_act", "gelu"),
        ("hidden_size", 0),
        ("hidden_size", "32"),
        ("hidden_size", True),
        ("num_hidden_layers", 10**9),
        ("vocab_size", None),
        ("num_key_value_heads", 3),
        ("partial_rotary_factor", 0.5),
        ("quantization_config", {"quant_method": "gptq"}),
        ("quantization_config", ["gptq"]),
    ],
)
def test_a_field_that_is_not_served_is_named(tmp_path: Path, field: str, value: Any) -> None:
    with pytest.raises(UnsupportedModel) as refusal:
        read(tmp_path, **{field: value})

    assert refusal.value.field == field
    assert refusal.value.rule
    assert refusal.value.value is not None


def test_an_unknown_architecture_is_refused_with_those_that_are_served(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel) as refusal:
        read(tmp_path, architectures=["GPT2LMHeadModel"])

    assert "GPT2LMHeadModel" in refusal.value.message
    assert "Qwen3ForCausalLM" in refusal.value.message


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({}, 100),
        ({"rope_scaling": None}, 100),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, 100),
        ({"rope_scaling": {"type": "linear", "factor": 2.5}}, 250),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2}}, 200),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 400),
        (
            {
                "rope_scaling": {
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 25,
                }
            },
            100,
        ),
        (
            {"rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 25}},
            100,
        ),
        (
            {
                "rope_parameters": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "original_max_position_embeddings": 25,
                }
            },
            100,
        ),
    ],
)
def test_the_context_counts_the_rope_scaling_in(
    tmp_path: Path, changes: dict[str, Any], tokens: int
) -> None:
    assert read(tmp_path, **changes).max_model_tokens == tokens


@pytest.mark.parametrize(
    ("rope", "field"),
    [
        ({"rope_type": "longrope"}, "rope_scaling.rope_type"),
        ({"rope_type": "linear"}, "rope_scaling.factor"),
        ({"rope_type": "linear", "factor": float("nan")}, "rope_scaling.factor"),
        ({"rope_type": "linear", "factor": "8"}, "rope_scaling.factor"),
        (["linear"], "rope_scaling"),
    ],
)
def test_a_rope_scaling_that_is_not_served_is_named(tmp_path: Path, rope: Any, field: str) -> None:
    with pytest.raises(UnsupportedModel) as refusal:
        read(tmp_path, rope_scaling=rope)

    assert refusal.value.field == field


def test_llama_without_grouped_heads_has_one_key_head_per_head(tmp_path: Path) -> None:
    assert read(tmp_path, num_key_value_heads=None).kv_heads == 4


def test_qwen3s_head_size_is_its_own_where_the_config_is_silent(tmp_path: Path) -> None:
    assert read(tmp_path, architectures=["Qwen3ForCausalLM"]).head_size == 128


@pytest.mark.parametrize(
    ("architecture", "has_qkv_bias", "has_output_bias"),
    [
        ("LlamaForCausalLM", True, True),
        ("MistralForCausalLM", False, False),
        ("Qwen2ForCausalLM", True, False),
        ("Qwen3ForCausalLM", True, True),
    ],
)
def test_attention_bias_means_what_the_architecture_makes_of_it(
    tmp_path: Path, architecture: str, has_qkv_bias: bool, has_output_bias: bool
) -> None:
    config = read(tmp_path, architectures=[architecture], attention_bias=True)

    assert (config.has_qkv_bias, config.has_output_bias) == (has_qkv_bias, has_output_bias)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
FIELDS = sorted(
    {*LLAMA, "head_dim", "rope_scaling", "rope_parameters", "quantization_config", "hidden_act"}
)


@given(changes=st.dictionaries(st.sampled_from(FIELDS), JSON, min_size=1, max_size=3))
def test_no_config_can_crash_the_reader(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any]
) -> None:
    try:
        config = read(tmp_path_factory.getbasetemp(), **changes)
    except UnsupportedModel as refusal:
        assert refusal.field
        assert refusal.rule
        return
    assert config.layers >= 1
    assert config.max_model_tokens >= 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_no_json_object_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)

    with pytest.raises(UnsupportedModel, match=r"config\.json"):
        read_model_config(tmp_path)
