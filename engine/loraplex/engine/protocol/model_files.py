"""The files of a model directory: which ones make the model, and what tensors they hold."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from loraplex.engine.protocol.identity import Digest, digest_of_file, digest_of_manifest
from loraplex.engine.protocol.model_config import read_json, refuse

WEIGHTS_FILE: Final = "model.safetensors"
WEIGHTS_INDEX_FILE: Final = "model.safetensors.index.json"
TOKENIZER_FILE: Final = "tokenizer.json"

TEXT_FILES: Final = (
    "config.json",
    "generation_config.json",
    TOKENIZER_FILE,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    WEIGHTS_INDEX_FILE,
)
"""What makes a model beside its weights; whatever else a directory holds is not read."""

_MAX_HEADER_BYTES: Final = 100_000_000
"""The safetensors format's own limit."""


@dataclass(frozen=True)
class StoredTensor:
    """`start` and `end` count bytes from the start of the file."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def model_files(model_dir: Path) -> list[Path]:
    """The files whose bytes make the model, sorted by name.

    Raises UnsupportedModel where the tokenizer or safetensors weights are missing.
    """
    if not (model_dir / TOKENIZER_FILE).is_file():
        refuse(
            f"{model_dir} has no {TOKENIZER_FILE}, the fast tokenizer's file.",
            TOKENIZER_FILE,
            "present",
            "missing",
        )
    names = {name for name in TEXT_FILES if (model_dir / name).is_file()}
    names |= {path.name for path in _weights_files(model_dir)}
    return [model_dir / name for name in sorted(names)]


def digest_of_model(model_dir: Path) -> Digest:
    """The base digest: a manifest of the model's own files, each with its digest."""
    files = {path.name: digest_of_file(path) for path in model_files(model_dir)}
    return digest_of_manifest({"kind": "base model", "files": files})


def stored_tensors(model_dir: Path) -> dict[str, StoredTensor]:
    """Every tensor by name, from the headers of the weights files; values are not read."""
    tensors: dict[str, StoredTensor] = {}
    for path in _weights_files(model_dir):
        for name, tensor in _read_header(path).items():
            if name in tensors:
                refuse(
                    f"{name} lies in both {tensors[name].file} and {path.name}.",
                    name,
                    "in one file",
                    path.name,
                )
            tensors[name] = tensor
    return tensors


def _weights_files(model_dir: Path) -> list[Path]:
    single = model_dir / WEIGHTS_FILE
    if single.is_file():
        return [single]
    index = model_dir / WEIGHTS_INDEX_FILE
    if not index.is_file():
        _refuse_without_weights(model_dir)
    return _shards(index)


def _refuse_without_weights(model_dir: Path) -> NoReturn:
    pickles = [path.name for path in sorted(model_dir.glob("*")) if _is_pickle(path)]
    if pickles:
        refuse(
            f"{model_dir} has its weights in {pickles[0]}, a pickle, which can run code when it "
            "is read; only safetensors are served.",
            WEIGHTS_FILE,
            "safetensors",
            pickles[0],
        )
    if (model_dir / "adapter_config.json").is_file():
        refuse(
            f"{model_dir} holds a LoRA adapter, not a base model.",
            WEIGHTS_FILE,
            "present",
            "adapter_config.json",
        )
    refuse(
        f"{model_dir} has neither {WEIGHTS_FILE} nor {WEIGHTS_INDEX_FILE}.",
        WEIGHTS_FILE,
        "present",
        "missing",
    )


def _is_pickle(path: Path) -> bool:
    return path.suffix in {".bin", ".pt", ".pth", ".ckpt"}


def _shards(index: Path) -> list[Path]:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        refuse(f"{index} names no shards.", "weight_map", "an object", repr(weight_map)[:80])
    shards = [index.parent / str(name) for name in sorted(set(weight_map.values()))]
    for shard in shards:
        if shard.parent != index.parent or shard.suffix != ".safetensors":
            refuse(
                f"{index} names the shard {shard.name!r}, which is no safetensors file beside it.",
                "weight_map",
                "safetensors files in the same directory",
                shard.name,
            )
        if not shard.is_file():
            refuse(f"The shard {shard} is missing.", "weight_map", "every shard", shard.name)
    return shards


def _read_header(path: Path) -> dict[str, StoredTensor]:
    try:
        with path.open("rb") as file:
            length_bytes = int.from_bytes(file.read(8), "little")
            if length_bytes > min(_MAX_HEADER_BYTES, path.stat().st_size):
                raise ValueError("its header is longer than the file")
            header: dict[str, Any] = json.loads(file.read(length_bytes))
        header.pop("__metadata__", None)
        return {
            name: _stored_tensor(path.name, entry, 8 + length_bytes)
            for name, entry in header.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        refuse(
            f"{path} is not a safetensors file: {error}.", path.name, "safetensors", "unreadable"
        )


def _stored_tensor(file: str, entry: dict[str, Any], data_start: int) -> StoredTensor:
    start, end = map(int, entry["data_offsets"])
    shape = tuple(map(int, entry["shape"]))
    return StoredTensor(file, str(entry["dtype"]), shape, data_start + start, data_start + end)
