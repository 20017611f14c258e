"""A router between adapters (Arrow) is refused by name; those it routes between are served."""

from pathlib import Path

import pytest
from peft import ArrowConfig, create_arrow_model

from loraplex.adapters_registry.rejection import AdapterRejected, ReasonCode
from tests.engine.lora.options import ALL, Served, differences_from_peft, option, save, uploaded
from tests.engine.tiny import oracle

pytestmark = [
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def test_a_router_is_refused_and_its_adapters_are_served(
    bases: dict[str, Served], tmp_path: Path
) -> None:
    base = bases["llama"]
    tasks = [tmp_path / "made" / str(seed) for seed in range(2)]
    for seed, folder in enumerate(tasks):
        save(option(target_modules=ALL), base, folder, seed)
    router = create_arrow_model(
        oracle(base.directory), [str(folder) for folder in tasks], ArrowConfig(top_k=1)
    )
    router.save_pretrained(str(tmp_path))
    with pytest.raises(AdapterRejected) as rejected:
        uploaded(tmp_path / "arrow_router", base)
    (reason,) = rejected.value.reasons
    assert (reason.code, reason.field) == (ReasonCode.NOT_SERVED, "arrow_config")
    assert "Arrow routing" in reason.message
    differences = differences_from_peft(
        base, {name: tmp_path / name for name in ("task_0", "task_1")}
    )
    assert max(differences.values()) < 5e-4, differences
