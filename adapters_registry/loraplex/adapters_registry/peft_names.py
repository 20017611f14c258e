"""Reads a tensor's name: which module it belongs to, and what it is there.

PEFT writes `base_model.model.<path>.lora_A.weight`. Trainers that save a wrapped model, or one
whose adapter's name PEFT has not taken out, write more; what they write is read by the rules here
and by no others. A rule only takes parts away that name no module of any base.
"""

import re
from enum import StrEnum
from typing import NamedTuple

WRAPPERS = frozenset(
    {
        "_orig_mod",  # torch.compile, as Axolotl and others save it
        "_fsdp_wrapped_module",  # PyTorch's FSDP
        "_checkpoint_wrapped_module",  # activation checkpointing
    }
)
"""Parts that may stand anywhere in a path, one for each module that was wrapped."""

DATA_PARALLEL = "module"
"""The first part of every name under DistributedDataParallel and DeepSpeed."""

PEFT_PREFIX = ("base_model", "model")
"""PEFT's own, twice where a PEFT model was wrapped again; missing where the trainer saved the inner
model's names."""

_ADAPTER = r"(?:\.(?P<adapter>(?!weight$|bias$)[A-Za-z0-9_\-]+))?"
"""The adapter's name, `default` mostly, where a checkpoint was saved without PEFT."""


class Part(StrEnum):
    A = "lora_A"
    B = "lora_B"
    EMBEDDING_A = "lora_embedding_A"
    EMBEDDING_B = "lora_embedding_B"
    ADDED_BIAS = "lora_B.bias"
    MAGNITUDE = "lora_magnitude_vector"
    BIAS = "bias"
    """In the place of the base's own."""
    WHOLE = "weight"
    """In the place of the base's own."""


_ENDINGS = (
    (Part.A, re.compile(rf"\.lora_A{_ADAPTER}\.weight$")),
    (Part.B, re.compile(rf"\.lora_B{_ADAPTER}\.weight$")),
    (Part.ADDED_BIAS, re.compile(rf"\.lora_B{_ADAPTER}\.bias$")),
    (Part.EMBEDDING_A, re.compile(rf"\.lora_embedding_A{_ADAPTER}$")),
    (Part.EMBEDDING_B, re.compile(rf"\.lora_embedding_B{_ADAPTER}$")),
    (Part.MAGNITUDE, re.compile(rf"\.lora_magnitude_vector{_ADAPTER}(?:\.weight)?$")),
    (Part.BIAS, re.compile(r"(?:\.base_layer)?\.bias$")),
    (Part.WHOLE, re.compile(r"(?:\.base_layer)?\.weight$")),
)

FOREIGN = (
    (
        re.compile(r"\.lora_[ab]$"),
        "MLX and torchtune write for themselves; export to PEFT's format",
    ),
    (
        re.compile(r"\.lora_(down|up)\."),
        "image trainers write; this is no language model's adapter",
    ),
    (re.compile(r"\.(linear_in|linear_out)\."), "NeMo writes for itself; export to PEFT's format"),
    (re.compile(r"\.token_adapter\."), "trainable_token_indices makes, not served yet"),
    (re.compile(r"\.modules_to_save\."), "modules_to_save makes, not served yet"),
)
"""Names of other formats, told apart only so that the refusal can say what to do."""


class TensorName(NamedTuple):
    path: str
    part: Part
    adapter: str | None


def read_name(name: str) -> TensorName | None:
    """None where the name ends as no tensor of an adapter does."""
    for part, ending in _ENDINGS:
        if match := ending.search(name):
            adapter = match["adapter"] if "adapter" in ending.groupindex else None
            return TensorName(bare_path(name[: match.start()]), part, adapter)
    return None


def bare_path(path: str) -> str:
    """The module's path in the base model."""
    parts = [part for part in path.split(".") if part not in WRAPPERS]
    if parts[0] == DATA_PARALLEL:
        parts = parts[1:]
    while tuple(parts[:2]) == PEFT_PREFIX:
        parts = parts[2:]
    return ".".join(parts)


def foreign_format(name: str) -> str | None:
    """What writes such names, for a name that `read_name` or the base does not know."""
    return next((writer for mark, writer in FOREIGN if mark.search(name)), None)
