"""Describes a Hugging Face directory as a ModuleTable, without torch."""

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from loraplex.engine.protocol.errors import UnsupportedModel
from loraplex.engine.protocol.identity import Digest
from loraplex.engine.protocol.model_config import read_json, read_model_config, refuse
from loraplex.engine.protocol.model_files import (
    StoredTensor,
    digest_of_model,
    model_files,
    stored_tensors,
)
from loraplex.engine.protocol.model_tensors import check_tensors, linears
from loraplex.engine.protocol.module_table import EMBEDDING, HEAD, ModuleTable
from loraplex.engine.protocol.values import digest_of_values

MODULE_TABLE_FILE: Final = "loraplex.json"
_TABLE_FORMAT: Final = 2
"""Goes up when a table says more than before, so that those kept are made again."""

_BASE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""What callers may write as `model`; what separates adapters, versions, digests is not in it."""


class _DescribedFiles(msgspec.Struct, frozen=True):
    """A module table and the files it was made of: name to (bytes, modification time in ns)."""

    table: ModuleTable
    files: dict[str, tuple[int, int]]
    format: int = 1


def locate_model(model: str, models_dir: Path) -> Path:
    """The directory of a model named under `models_dir`, or given as a path.

    Raises UnsupportedModel naming what was looked for.
    """
    candidates = [models_dir / model] if _BASE_NAME.fullmatch(model) else []
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
    _check_base_name(base_name)
    config = read_model_config(model_dir)
    stored = stored_tensors(model_dir)
    check_tensors(config, stored)
    return ModuleTable(
        base_name=base_name,
        base_digest=digest_of_model(model_dir),
        architecture=config.architecture,
        layers=config.layers,
        hidden_size=config.hidden_size,
        vocabulary_size=config.vocabulary_size,
        max_model_tokens=config.max_model_tokens,
        eos_token_ids=_eos_token_ids(model_dir),
        modules=tuple(linears(config)),
        is_tied=config.has_tied_embeddings,
        table_digests=_table_digests(model_dir, stored, config.has_tied_embeddings),
    )


def _table_digests(
    model_dir: Path, stored: dict[str, StoredTensor], is_tied: bool
) -> dict[str, Digest]:
    sources = {EMBEDDING: EMBEDDING, HEAD: EMBEDDING if is_tied else HEAD}
    digests: dict[str, Digest] = {}
    for path, source in sources.items():
        found = stored[f"{source}.weight"]
        digests[path] = digests.get(source) or digest_of_values(
            model_dir / found.file, found.dtype, found.start, found.end
        )
    return digests


def load_or_describe(model_dir: Path, base_name: str | None, cache_dir: Path) -> ModuleTable:
    """The model's table, as kept beside it (or in `cache_dir` where it is read-only).

    A kept table counts only while the model's files have the sizes and times it was made of.
    `base_name` defaults to the directory's name.
    """
    model_dir = model_dir.resolve()
    name = base_name or model_dir.name
    _check_base_name(name)
    files = {
        path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in model_files(model_dir)
    }
    key = hashlib.sha256(os.fsencode(model_dir)).hexdigest()[:32]
    places = (model_dir / MODULE_TABLE_FILE, cache_dir / f"{key}.json")
    for place in places:
        kept = _read_kept(place)
        if kept is not None and kept.format == _TABLE_FORMAT and kept.files == files:
            return msgspec.structs.replace(kept.table, base_name=name)
    table = describe_model(model_dir, name)
    _keep(_DescribedFiles(table, files, _TABLE_FORMAT), places)
    return table


def _check_base_name(base_name: str) -> None:
    if not _BASE_NAME.fullmatch(base_name):
        refuse(
            f"{base_name!r} cannot be a model's name: letters, digits, '.', '_' and '-' make one.",
            "model",
            _BASE_NAME.pattern,
            base_name,
        )


def _read_kept(place: Path) -> _DescribedFiles | None:
    try:
        return msgspec.json.decode(place.read_bytes(), type=_DescribedFiles)
    except (OSError, msgspec.DecodeError):
        return None


def _keep(described: _DescribedFiles, places: tuple[Path, ...]) -> None:
    data = msgspec.json.format(msgspec.json.encode(described), indent=1)
    for place in places:
        partial = place.with_name(f"{place.name}.{os.getpid()}.partial")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(data)
            partial.replace(place)
        except OSError:
            # The next place is tried; kept nowhere, the table is only made again next time.
            with suppress(OSError):
                partial.unlink(missing_ok=True)
        else:
            return


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
