"""Reads a Hugging Face `config.json`: what is served, and what is refused by name."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from loraplex.engine.protocol.errors import UnsupportedModel

SERVED_ARCHITECTURES: Final = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
)
SERVED_ROPE_TYPES: Final = ("default", "linear", "dynamic", "yarn", "llama3")
LARGEST_LAYERS: Final = 1024
LARGEST_COUNT: Final = 2**31 - 1
LARGEST_ROPE_FACTOR: Final = 1024


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a model, with the architecture's own defaults filled in."""

    architecture: str
    layers: int
    hidden_size: int
    intermediate_size: int
    attention_heads: int
    kv_heads: int
    head_size: int
    vocabulary_size: int
    max_model_tokens: int
    has_tied_embeddings: bool
    has_qkv_bias: bool
    has_output_bias: bool
    has_mlp_bias: bool
    has_qk_norm: bool


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raises UnsupportedModel naming the file where it is not one."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        refuse(f"{path.parent} has no {path.name}.", path.name, "present", "missing")
    except (ValueError, RecursionError) as error:
        refuse(f"{path} is not JSON: {error}.", path.name, "a JSON object", "unreadable")
    if not isinstance(value, dict):
        refuse(f"{path} is not a JSON object.", path.name, "a JSON object", type(value).__name__)
    return value


def refuse(message: str, field: str, rule: str, value: str | int | float | None) -> NoReturn:
    raise UnsupportedModel(message, field=field, rule=rule, value=value)


def read_model_config(model_dir: Path) -> ModelConfig:
    """Read and check `config.json`; raises UnsupportedModel naming field, rule and value."""
    config = read_json(model_dir / "config.json")
    architecture = _architecture(config)
    _refuse_unserved(config)
    hidden_size = _count(config, "hidden_size")
    attention_heads = _count(config, "num_attention_heads")
    kv_heads = _count(config, "num_key_value_heads", _default_kv_heads(architecture, config))
    if attention_heads % kv_heads:
        refuse(
            f"{attention_heads} attention heads cannot share {kv_heads} key-value heads.",
            "num_key_value_heads",
            "divides num_attention_heads",
            kv_heads,
        )
    default_head_size = 128 if architecture.startswith("Qwen3") else hidden_size // attention_heads
    is_llama, is_qwen2 = architecture.startswith("Llama"), architecture.startswith("Qwen2")
    has_attention_bias = bool(config.get("attention_bias")) and not architecture.startswith(
        ("Mistral", "Qwen2")
    )
    return ModelConfig(
        architecture=architecture,
        layers=_layers(config),
        hidden_size=hidden_size,
        intermediate_size=_count(config, "intermediate_size"),
        attention_heads=attention_heads,
        kv_heads=kv_heads,
        head_size=_count(config, "head_dim", default_head_size),
        vocabulary_size=_count(config, "vocab_size"),
        max_model_tokens=_max_model_tokens(config),
        has_tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        has_qkv_bias=is_qwen2 or has_attention_bias,
        has_output_bias=has_attention_bias,
        has_mlp_bias=is_llama and bool(config.get("mlp_bias")),
        has_qk_norm=architecture.startswith("Qwen3"),
    )


def _architecture(config: dict[str, Any]) -> str:
    named = config.get("architectures")
    names = [str(name) for name in named] if isinstance(named, list) else []
    if len(names) == 1 and names[0] in SERVED_ARCHITECTURES:
        return names[0]
    found = ", ".join(names) or f"none (model_type {config.get('model_type')!r})"
    refuse(
        f"The architecture {found} is not served; served are {', '.join(SERVED_ARCHITECTURES)}.",
        "architectures",
        f"one of {', '.join(SERVED_ARCHITECTURES)}",
        found,
    )


def _refuse_unserved(config: dict[str, Any]) -> None:
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        refuse(f"The activation {activation!r} is not served.", "hidden_act", "silu", activation)
    part = _rope(config).get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if part not in (None, 1):
        refuse(
            f"Rotating only a part of each head ({part}) is not served.",
            "partial_rotary_factor",
            "1 or absent",
            repr(part),
        )
    quantisation = config.get("quantization_config")
    if quantisation:
        named = isinstance(quantisation, dict)
        method = str(quantisation.get("quant_method", "unknown") if named else quantisation)
        refuse(
            f"Weights quantised with {method} are not served; use the model's original weights.",
            "quantization_config",
            "absent",
            method,
        )


def _layers(config: dict[str, Any]) -> int:
    layers = _count(config, "num_hidden_layers")
    if layers > LARGEST_LAYERS:
        refuse(
            f"{layers} layers are more than the {LARGEST_LAYERS} that are served.",
            "num_hidden_layers",
            f"≤ {LARGEST_LAYERS}",
            layers,
        )
    return layers


def _default_kv_heads(architecture: str, config: dict[str, Any]) -> int | None:
    # Llama falls back to one key-value head per head; for the others an absent field means a
    # constant of Transformers that no real model relies on, so they must say it.
    if architecture.startswith("Llama"):
        return _count(config, "num_attention_heads")
    return None


def _count(config: dict[str, Any], field: str, default: int | None = None) -> int:
    value = config.get(field)
    if value is None and default is not None:
        return default
    if type(value) is not int or not 1 <= value <= LARGEST_COUNT:
        refuse(
            f"config.json's {field} must be a whole number from 1 to {LARGEST_COUNT}.",
            field,
            f"1 to {LARGEST_COUNT}",
            repr(value),
        )
    return value


def _max_model_tokens(config: dict[str, Any]) -> int:
    """How many tokens the model was made for, its rope scaling counted in.

    Linear and dynamic scaling stretch what the config says, and YaRN what it names as the
    original length; Llama 3's configs say the stretched length themselves.
    """
    tokens = _count(config, "max_position_embeddings")
    rope = _rope(config)
    kind = str(rope.get("rope_type", rope.get("type", "default")))
    if kind not in SERVED_ROPE_TYPES:
        refuse(
            f"The rope scaling {kind!r} is not served; served are {', '.join(SERVED_ROPE_TYPES)}.",
            "rope_scaling.rope_type",
            f"one of {', '.join(SERVED_ROPE_TYPES)}",
            kind,
        )
    if kind in {"linear", "dynamic"}:
        return int(tokens * _factor(rope))
    if kind == "yarn" and rope.get("factor") is not None:
        original = _count(rope, "original_max_position_embeddings", tokens)
        return max(tokens, int(original * _factor(rope)))
    return tokens


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        refuse("The rope scaling is no object.", "rope_scaling", "an object", repr(rope))
    return rope


def _factor(rope: dict[str, Any]) -> float:
    factor: Any = rope.get("factor")
    if type(factor) not in (int, float) or not 1 <= factor <= LARGEST_ROPE_FACTOR:
        refuse(
            f"The rope scaling's factor must be a number from 1 to {LARGEST_ROPE_FACTOR}.",
            "rope_scaling.factor",
            f"1 to {LARGEST_ROPE_FACTOR}",
            repr(factor),
        )
    return float(factor)
