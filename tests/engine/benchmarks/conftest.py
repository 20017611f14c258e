"""A tiny model with two adapters, in folders as a user has them."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from loraplex.engine.protocol.module_table import ModuleTable
from tests.engine.tiny import describe, make_adapter, make_model


@dataclass(frozen=True)
class TinyFolders:
    model: Path
    table: ModuleTable
    adapters: list[Path]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyFolders:
    """The adapters have ranks 4 and 6, on different linears."""
    root = tmp_path_factory.mktemp("tiny")
    model = make_model(root / "tiny", "llama")
    table = describe(model)
    targets = {4: ["q_proj", "down_proj"], 6: "all-linear"}
    folders = []
    for rank, linears in targets.items():
        folder = root / f"rank{rank}"
        with warnings.catch_warnings():  # of PEFT, at the architecture's old property
            warnings.filterwarnings("ignore", ".is_gradient_checkpointing.", FutureWarning)
            make_adapter(folder, model, table, seed=rank, r=rank, target_modules=linears)
        folders.append(folder)
    return TinyFolders(model, table, folders)
