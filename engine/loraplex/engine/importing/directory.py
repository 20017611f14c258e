"""A model directory appears whole or not at all, and once."""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from loraplex.engine.importing.errors import ModelNameTaken
from loraplex.engine.protocol.describe import load_or_describe

ORIGIN_FILE: Final = "loraplex-origin.json"
"""Where the directory came from; no part of the model's identity."""

_LOCK_FILE: Final = ".importing.lock"
_PARTIAL_PREFIX: Final = ".importing-"


def make_model_directory(
    models_dir: Path, name: str, origin: str, fill: Callable[[Path], None]
) -> Path:
    """Return `<models_dir>/<name>`, filled by `fill` in a temporary directory and then renamed.

    A directory that came from the same origin is returned as it is. One import at a time runs in
    a models directory; what an interrupted one left is removed. Raises ModelNameTaken where the
    name belongs to another origin, and whatever `fill` raises, leaving nothing behind.
    """
    models_dir.mkdir(parents=True, exist_ok=True)
    final = models_dir / name
    with _only_import(models_dir):
        if final.exists():
            _check_origin(final, origin)
            return final
        partial = Path(tempfile.mkdtemp(prefix=_PARTIAL_PREFIX, dir=models_dir))
        try:
            fill(partial)
            (partial / ORIGIN_FILE).write_text(json.dumps({"source": origin}) + "\n")
            partial.chmod(0o755)
            load_or_describe(partial, name, cache_dir=models_dir)
            _make_durable(partial)
            partial.rename(final)
            _sync(models_dir)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return final


def _check_origin(final: Path, origin: str) -> None:
    try:
        found = json.loads((final / ORIGIN_FILE).read_text())["source"]
    except (OSError, ValueError, KeyError):
        found = "elsewhere"
    if found != origin:
        raise ModelNameTaken(
            f"{final} exists and came from {found}, not from {origin}. "
            "Move it away or import into another directory.",
            field="source",
            rule="a name not yet taken by another source",
            value=final.name,
        )


@contextmanager
def _only_import(models_dir: Path) -> Iterator[None]:
    with (models_dir / _LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under the lock nobody else is importing: what is partial here was interrupted.
        for left in models_dir.glob(f"{_PARTIAL_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _make_durable(directory: Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            _sync(path)
    _sync(directory)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
