"""Random conversations are answered with the very same tokens whether prefixes are found or not."""

from pathlib import Path

import pytest

from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.module_table import ModuleTable
from tests.engine.conversations import compare
from tests.engine.driving import LocalFiles
from tests.engine.tiny import VOCABULARY, describe, make_adapter, make_engine, make_model

# PEFT asks Transformers by a name that Transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")


@pytest.mark.parametrize("pages", [400, 70])
def test_a_sample_on_a_tiny_model(pages: int, tmp_path: Path) -> None:
    """With room for everything, and with room for little more than what runs."""
    base = make_model(tmp_path / "base", "llama", max_position_embeddings=256)
    table = describe(base)
    refs = [
        make_adapter(tmp_path / f"{seed}", base, table, seed, r=4, target_modules=["q_proj"])
        for seed in range(2)
    ]
    engine = make_engine(base, table, pool_bytes=pages * 4096, max_step_tokens=24)
    comparison = compare(
        engine,
        [None, *refs],
        conversations=40,
        at_once=5,
        vocabulary_size=VOCABULARY,
        turn_tokens=24,
        seed=pages,
    )
    engine.close()
    assert comparison.cached_tokens > 200
    assert comparison.rounded_turns <= comparison.turns // 4


@pytest.mark.soak
def test_five_hundred_on_a_real_model(
    model_dir: Path, table: ModuleTable, adapters: dict[str, AdapterRef]
) -> None:
    config = EngineConfig(
        model_dir=str(model_dir),
        base_name=table.base_name,
        device="cpu",
        pool_bytes=320 * 1024 * 1024,
        max_step_tokens=256,
        adapter_cache_dir=str(model_dir),
    )
    engine = EngineCore(config, table, LocalFiles())
    comparison = compare(
        engine,
        [None, *adapters.values()],
        conversations=500,
        at_once=16,
        vocabulary_size=table.vocabulary_size,
        turn_tokens=24,
        seed=0,
    )
    engine.close()
    assert comparison.cached_tokens > 10_000
    assert comparison.rounded_turns <= comparison.turns // 20
