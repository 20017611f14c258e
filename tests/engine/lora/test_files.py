"""What PEFT saves beside LoRA's own tensors, or in another format than safetensors: refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model

from loraplex.adapters_registry.rejection import AdapterRejected, ReasonCode, RejectionReason
from tests.engine.lora.options import ALL, Served, train_by_chance, uploaded
from tests.engine.tiny import VOCABULARY, oracle

pytestmark = [
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def trained(model: Any) -> PeftModel:
    torch.manual_seed(0)
    adapted = get_peft_model(model, LoraConfig(r=5, target_modules=ALL))
    train_by_chance(adapted)
    return adapted


def refusals(folder: Path, base: Served) -> tuple[RejectionReason, ...]:
    with pytest.raises(AdapterRejected) as rejected:
        uploaded(folder, base)
    return rejected.value.reasons


def test_tables_of_a_resized_vocabulary_are_refused_by_their_names(
    bases: dict[str, Served], tmp_path: Path
) -> None:
    base = bases["llama"]
    model = oracle(base.directory)
    model.resize_token_embeddings(VOCABULARY + 3)
    trained(model).save_pretrained(str(tmp_path))
    reasons = refusals(tmp_path, base)
    assert [reason.code for reason in reasons] == [ReasonCode.NOT_SERVED] * 2
    assert all("vocabulary was resized" in reason.message for reason in reasons)
    assert {str(reason.field).split(".")[-2] for reason in reasons} == {"embed_tokens", "lm_head"}


def test_a_table_that_was_trained_itself_is_refused_by_its_name(
    bases: dict[str, Served], tmp_path: Path
) -> None:
    base = bases["llama"]
    model: Any = oracle(base.directory)
    with torch.no_grad():
        model.get_input_embeddings().weight[7] += 0.25
    trained(model).save_pretrained(str(tmp_path), save_embedding_layers=True)
    (reason,) = refusals(tmp_path, base)
    assert reason.code is ReasonCode.NOT_SERVED
    assert "embed_tokens.weight differs from the base's own" in reason.message


def test_a_pickle_is_refused_whatever_it_is_called(
    bases: dict[str, Served], tmp_path: Path
) -> None:
    base = bases["llama"]
    trained(oracle(base.directory)).save_pretrained(str(tmp_path), safe_serialization=False)
    (tmp_path / "adapter_model.bin").rename(tmp_path / "adapter_model.safetensors")
    (reason,) = refusals(tmp_path, base)
    assert reason.code is ReasonCode.FILE_KIND
    assert "pickle" in reason.message
    assert "safe_serialization=True" in reason.message
