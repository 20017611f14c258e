"""Adapters that PEFT makes of given options, and how far an engine's answers lie from PEFT's."""

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model

from loraplex.adapters_registry.peft import spec_from_files
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.sampling import SamplingParams
from tests.engine.driving import Answer, request, run
from tests.engine.models.test_architectures import PROMPT, logprobs_of
from tests.engine.tiny import VOCABULARY, make_engine, oracle, oracle_logits, peft_oracle

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
EVERY = [*ALL, "embed_tokens", "lm_head"]
NO_COPIES = {"save_embedding_layers": False}
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "tied": ("llama", {"tie_word_embeddings": True}),
    "biased": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
}
SAMPLING = SamplingParams(max_tokens=4, temperature=0.0, logprobs=VOCABULARY)


@dataclass(frozen=True)
class Option:
    """A way to make an adapter: of which base, with which fields, saved how.

    `late` are fields that PEFT acts on only with a library or a device that is not here. They are
    set before it saves the configuration, so that the upload says what such an adapter's says.
    """

    base: str
    config: dict[str, Any]
    saved: dict[str, Any] = field(default_factory=dict)
    late: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Served:
    """A base model on disk, as the registry and the engine know it."""

    directory: Path
    table: ModuleTable


def option(
    base: str = "llama",
    *,
    saved: dict[str, Any] | None = None,
    late: dict[str, Any] | None = None,
    **config: Any,
) -> Option:
    return Option(base, {"r": 5, "lora_alpha": 7, **config}, saved or {}, late or {})


def save(chosen: Option, base: Served, directory: Path, seed: int) -> AdapterRef:
    """An adapter that PEFT made, trained by chance, and saved; resolved as an upload would be."""
    torch.manual_seed(seed)
    config = LoraConfig(**{"init_lora_weights": False, **chosen.config})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = get_peft_model(oracle(base.directory), config)
        train_by_chance(model)
        for name, value in chosen.late.items():
            setattr(model.peft_config["default"], name, value)
        model.save_pretrained(str(directory), **chosen.saved)
    return uploaded(directory, base)


def train_by_chance(model: Any) -> None:
    """Move what training would move: no matrix stays zero, no magnitude and no bias as it began."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "magnitude" in name:
                parameter.mul_(1 + 0.3 * torch.randn_like(parameter))
            elif parameter.requires_grad and not torch.any(parameter):
                parameter.normal_(std=0.3)
            elif parameter.requires_grad and name.endswith("bias"):
                parameter.add_(0.5 * torch.randn_like(parameter))


def uploaded(directory: Path, base: Served) -> AdapterRef:
    """What an upload of a folder's two files resolves to. Raises AdapterRejected."""
    weights = directory / "adapter_model.safetensors"
    config = (directory / "adapter_config.json").read_bytes()
    spec = spec_from_files(config, weights, base.table)
    return AdapterRef(spec=spec, namespace=TenantNamespace("tests"), url=str(weights))


def difference(answer: Answer, model: Any) -> float:
    """The largest, of log-probabilities."""
    wanted = oracle_logits(model, PROMPT[:19], answer.token_ids).log_softmax(-1)
    return float((logprobs_of(answer) - wanted).abs().max())


def differences_from_peft(base: Served, folders: dict[str, Path]) -> dict[str, float]:
    """By title: of each adapter alone, of each in one batch with all others and the bare base."""
    refs = {title: uploaded(folder, base) for title, folder in folders.items()}
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
    found = {"base": difference(mixed["base"], oracle(base.directory))}
    for title, folder in folders.items():
        adapted = peft_oracle(base.directory, folder)
        found[title] = difference(alone[title], adapted)
        found[f"{title}, mixed"] = difference(mixed[title], adapted)
    return found
