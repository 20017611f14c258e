"""Describes a Hugging Face directory as a ModuleTable, from its headers: no weights, no torch."""

import hashlib
import os
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from loraplex.engine.protocol.errors import UnsupportedModel
from loraplex.engine.protocol.model_config import (
    ModelConfig,
    read_json,
    read_model_config,
    refuse,
)
from loraplex.engine.protocol.model_files import (
    SERVED_DTYPES,
    StoredTensor,
    digest_of_model,
    model_files,
    stored_tensors,
)
from loraplex.engine.protocol.module_table import LinearModule, ModuleTable

MODULE_TABLE_FILE: Final = "loraplex.json"

_IGNORED_TENSORS: Final = re.compile(r"rotary_emb\.inv_freq$")
"""Older files store this constant, which is computed from the config."""


class _DescribedFiles(msgspec.Struct, frozen=True):
    """A module table and the files it was made of: name to (bytes, modification time in ns)."""

    table: ModuleTable
    files: dict[str, tuple[int, int]]


def locate_model(model: str, models_dir: Path) -> Path:
    """The directory of a model named under `models_dir`, or given as a path.

    Raises UnsupportedModel naming what was looked for.
    """
    candidates = [models_dir / model] if Path(model).name == model else []
    candidates.append(Path(model).expanduser())
    for candidate in candidates:
        if candidate.is_dir():
            return candidate.resolve()
    looked_for = " or ".join(str(candidate) for candidate in candidates)
    raise UnsupportedModel(
        f"There is no model {model!r}: looked for the directory {looked_for}. "
        "`loraplex model import` brings one.",
        field="model",
        rule="a name in the models directory, or a Hugging Face directory",
        value=model,
    )


def describe_model(model_dir: Path, base_name: str) -> ModuleTable:
    """Check that the engine serves the model and describe it. Reads every file once, to hash it.

    Raises UnsupportedModel naming field, rule and value: an unknown architecture, a missing
    tokenizer, weights that are not safetensors, tensors that are missing or left over.
    """
    config = read_model_config(model_dir)
    model_files(model_dir)
    _check_tensors(_expected_shapes(config), stored_tensors(model_dir), config)
    return ModuleTable(
        base_name=base_name,
        base_digest=digest_of_model(model_dir),
        architecture=config.architecture,
        layers=config.layers,
        hidden_size=config.hidden_size,
        vocabulary_size=config.vocabulary_size,
        max_model_tokens=config.max_model_tokens,
        eos_token_ids=_eos_token_ids(model_dir),
        modules=tuple(_linears(config)),
    )


def load_or_describe(model_dir: Path, base_name: str | None, cache_dir: Path) -> ModuleTable:
    """The model's table, as kept beside it (or in `cache_dir` where it is read-only).

    A kept table counts only while the model's files have the sizes and times it was made of.
    `base_name` defaults to the directory's name.
    """
    model_dir = model_dir.resolve()
    name = base_name or model_dir.name
    files = {
        path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in model_files(model_dir)
    }
    key = hashlib.sha256(os.fsencode(model_dir)).hexdigest()[:32]
    places = (model_dir / MODULE_TABLE_FILE, cache_dir / f"{key}.json")
    for place in places:
        kept = _read_kept(place)
        if kept is not None and kept.files == files:
            return msgspec.structs.replace(kept.table, base_name=name)
    table = describe_model(model_dir, name)
    _keep(_DescribedFiles(table, files), places)
    return table


def _read_kept(place: Path) -> _DescribedFiles | None:
    try:
        return msgspec.json.decode(place.read_bytes(), type=_DescribedFiles)
    except (OSError, msgspec.DecodeError):
        return None


def _keep(described: _DescribedFiles, places: tuple[Path, ...]) -> None:
    data = msgspec.json.format(msgspec.json.encode(described), indent=1)
    for place in places:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            partial = place.with_name(f"{place.name}.{os.getpid()}.partial")
            partial.write_bytes(data)
            partial.replace(place)
        except OSError:
            continue
        return


def _linears(config: ModelConfig) -> list[LinearModule]:
    hidden, wide = config.hidden_size, config.intermediate_size
    q_size, kv_size = (heads * config.head_size for heads in _heads(config))
    shapes = {
        "self_attn.q_proj": (hidden, q_size),
        "self_attn.k_proj": (hidden, kv_size),
        "self_attn.v_proj": (hidden, kv_size),
        "self_attn.o_proj": (q_size, hidden),
        "mlp.gate_proj": (hidden, wide),
        "mlp.up_proj": (hidden, wide),
        "mlp.down_proj": (wide, hidden),
    }
    return [
        LinearModule(
            path=f"model.layers.{layer}.{path}",
            layer=layer,
            linear=path.rpartition(".")[2],
            in_features=in_features,
            out_features=out_features,
        )
        for layer in range(config.layers)
        for path, (in_features, out_features) in shapes.items()
    ]


def _heads(config: ModelConfig) -> tuple[int, int]:
    return config.attention_heads, config.kv_heads


def _expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    hidden = (config.hidden_size,)
    embeddings = (config.vocabulary_size, config.hidden_size)
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": embeddings,
        "model.norm.weight": hidden,
    }
    if not config.has_tied_embeddings:
        shapes["lm_head.weight"] = embeddings
    for module in _linears(config):
        shapes[f"{module.path}.weight"] = (module.out_features, module.in_features)
        if _has_bias(module.linear, config):
            shapes[f"{module.path}.bias"] = (module.out_features,)
    norms = {"input_layernorm": hidden, "post_attention_layernorm": hidden}
    if config.has_qk_norm:
        norms |= {"self_attn.q_norm": (config.head_size,), "self_attn.k_norm": (config.head_size,)}
    for layer in range(config.layers):
        shapes |= {f"model.layers.{layer}.{norm}.weight": shape for norm, shape in norms.items()}
    return shapes


def _has_bias(linear: str, config: ModelConfig) -> bool:
    if linear in {"q_proj", "k_proj", "v_proj"}:
        return config.has_qkv_bias
    return config.has_output_bias if linear == "o_proj" else config.has_mlp_bias


def _check_tensors(
    expected: dict[str, tuple[int, ...]], found: dict[str, StoredTensor], config: ModelConfig
) -> None:
    for name, shape in expected.items():
        if name not in found:
            refuse(f"The weights lack {name}.", name, f"shape {list(shape)}", "missing")
        if found[name].shape != shape:
            shown = str(list(found[name].shape))
            refuse(
                f"{name} has the shape {shown}, but config.json implies {list(shape)}.",
                name,
                f"shape {list(shape)}",
                shown,
            )
        if found[name].dtype not in SERVED_DTYPES:
            refuse(
                f"{name} is stored as {found[name].dtype}; served are {', '.join(SERVED_DTYPES)}.",
                name,
                f"one of {', '.join(SERVED_DTYPES)}",
                found[name].dtype,
            )
    may_be_there = {"lm_head.weight"} if config.has_tied_embeddings else set()
    for name in found.keys() - expected.keys() - may_be_there:
        # Serving without a tensor that the file has would serve another model than the file's.
        if not _IGNORED_TENSORS.search(name):
            refuse(
                f"The weights hold {name}, which {config.architecture} does not use.",
                name,
                f"a tensor of {config.architecture}",
                str(list(found[name].shape)),
            )


def _eos_token_ids(model_dir: Path) -> tuple[int, ...]:
    """Those of generation_config.json, else of config.json; none where neither names any."""
    generation_config = model_dir / "generation_config.json"
    sources = [read_json(generation_config)] if generation_config.is_file() else []
    sources.append(read_json(model_dir / "config.json"))
    for source in sources:
        found: Any = source.get("eos_token_id")
        if found is None:
            continue
        ids = found if isinstance(found, list) else [found]
        if not all(type(token_id) is int and token_id >= 0 for token_id in ids):
            refuse("eos_token_id holds no token ids.", "eos_token_id", "token ids", repr(found))
        return tuple(dict.fromkeys(ids))
    return ()
