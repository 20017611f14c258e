"""Tiny random models and adapters, made with Transformers and PEFT, and what those answer."""

from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, PreTrainedModel

import loraplex.engine.core as core
from loraplex.adapters_registry.peft import spec_from_files
from loraplex.engine.core import EngineCore
from loraplex.engine.lora.loader import AdapterLoader
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.describe import describe_model
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.module_table import ModuleTable
from tests.engine.driving import LocalFiles

VOCABULARY = 96
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def make_model(directory: Path, model_type: str, shard_bytes: int = 10**9, **fields: Any) -> Path:
    """Save a random model of an architecture; large weights make its answers decided."""
    torch.manual_seed(0)
    values = {**SIZES, "initializer_range": 0.3, **fields}
    config = AutoConfig.for_model(model_type, **values)
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(directory, max_shard_size=shard_bytes)
    (directory / "tokenizer.json").write_text("{}")
    return directory


def oracle(directory: Path) -> PreTrainedModel:
    """The model as Transformers runs it, in float32."""
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    )
    model.eval()  # type: ignore[no-untyped-call]
    return model


def oracle_logits(model: Any, prompt: list[int], output: list[int]) -> Tensor:
    """`[output, vocabulary]`: logits before each output token; the prompt is one forward pass."""
    rows, cache = [], DynamicCache(config=model.config)
    with torch.inference_mode():
        for ids in (prompt, *([token_id] for token_id in output[:-1])):
            logits = model(torch.tensor([ids]), cache=cache, use_cache=True).logits
            rows.append(logits[0, -1].float())
    return torch.stack(rows)


def describe(directory: Path, **changes: Any) -> ModuleTable:
    return msgspec.structs.replace(describe_model(directory, "tiny"), **changes)


def make_engine(directory: Path, table: ModuleTable, **changes: Any) -> EngineCore:
    """An engine with blocks of four tokens and seven tokens a step: everything is cut up.

    With `loader_threads=0` loads end when the test calls the loader's `run_one`.
    """
    values: dict[str, Any] = {
        "model_dir": str(directory),
        "base_name": "tiny",
        "device": "cpu",
        "pool_bytes": 2**20,
        "block_tokens": 4,
        "max_step_tokens": 7,
        "adapter_cache_dir": str(directory),
    }
    adapters = changes.pop("adapters", LocalFiles())
    loader = partial(AdapterLoader, threads=changes.pop("loader_threads", 2))
    with patch.object(core, "AdapterLoader", loader):
        return EngineCore(EngineConfig(**{**values, **changes}), table, adapters)


def make_adapter(
    directory: Path, base: Path, table: ModuleTable, seed: int = 0, **fields: Any
) -> AdapterRef:
    """Save a random adapter with PEFT and resolve it as an upload would be."""
    torch.manual_seed(seed)
    config = LoraConfig(init_lora_weights=False, **fields)
    get_peft_model(oracle(base), config).save_pretrained(str(directory))
    weights = directory / "adapter_model.safetensors"
    spec = spec_from_files((directory / "adapter_config.json").read_bytes(), weights, table)
    return AdapterRef(spec=spec, namespace=TenantNamespace("tests"), url=str(weights))


def peft_oracle(base: Path, adapter: Path) -> PeftModel:
    model: PeftModel = PeftModel.from_pretrained(oracle(base), adapter)
    return model.eval()
