"""Tiny random models of the served architectures, as Transformers saves them."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
}

ARCHITECTURES: dict[str, tuple[Any, Any]] = {
    "LlamaForCausalLM": (LlamaConfig, LlamaForCausalLM),
    "MistralForCausalLM": (MistralConfig, MistralForCausalLM),
    "Qwen2ForCausalLM": (Qwen2Config, Qwen2ForCausalLM),
    "Qwen3ForCausalLM": (Qwen3Config, Qwen3ForCausalLM),
}


def save_tiny_model(
    directory: Path, architecture: str, *, max_shard_size: str = "1GB", **changes: Any
) -> PreTrainedModel:
    """Save a random model and a tokenizer of single letters; returns the model."""
    make_config, make_model = ARCHITECTURES[architecture]
    torch.manual_seed(0)
    model: PreTrainedModel = make_model(make_config(**{**SHAPE, **changes}))
    model.save_pretrained(directory, max_shard_size=max_shard_size)
    Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[])).save(str(directory / "tokenizer.json"))
    return model


def edit_json(path: Path, **changes: Any) -> None:
    """Set fields of a JSON object; None removes one."""
    value = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: kept for key, kept in value.items() if kept is not None}))
