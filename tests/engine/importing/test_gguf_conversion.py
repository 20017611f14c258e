"""A converted model computes what the original did: right names, right order of rows."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from safetensors.torch import load_file
from tokenizers import Tokenizer

from loraplex.engine.importing.errors import CorruptModelSource
from loraplex.engine.importing.gguf_conversion import convert_gguf
from loraplex.engine.importing.progress import no_progress
from loraplex.engine.protocol.describe import describe_model
from loraplex.engine.protocol.errors import UnsupportedModel
from tests.engine.importing.tiny_gguf import TEMPLATE, random_weights, write_gguf

FLOAT32 = GGMLQuantizationType.F32


@pytest.mark.parametrize("is_tied", [True, False])
def test_every_weight_is_the_original_rounded_to_bfloat16(tmp_path: Path, is_tied: bool) -> None:
    weights = random_weights(is_tied=is_tied)
    write_gguf(tmp_path / "model.gguf", weights, kind=FLOAT32)

    convert_gguf(tmp_path / "model.gguf", tmp_path, no_progress)

    converted = load_file(tmp_path / "model.safetensors")
    assert len(converted) == len(weights)
    for theirs, ours in {
        "token_embd.weight": "model.embed_tokens.weight",
        "blk.1.attn_q.weight": "model.layers.1.self_attn.q_proj.weight",
        "blk.1.attn_k.weight": "model.layers.1.self_attn.k_proj.weight",
        "blk.0.ffn_down.weight": "model.layers.0.mlp.down_proj.weight",
        "output_norm.weight": "model.norm.weight",
    }.items():
        assert torch.equal(converted[ours], torch.from_numpy(weights[theirs]).bfloat16()), ours
    assert ("lm_head.weight" in converted) is not is_tied
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["tie_word_embeddings"] is is_tied


def test_the_engine_can_serve_what_was_converted(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", random_weights())

    convert_gguf(tmp_path / "model.gguf", tmp_path, no_progress)

    table = describe_model(tmp_path, "tiny")
    assert (table.layers, table.max_model_tokens, table.eos_token_ids) == (2, 128, (2,))


def test_the_result_does_not_depend_on_how_many_rows_are_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gguf(tmp_path / "model.gguf", random_weights())
    (tmp_path / "at once").mkdir()
    (tmp_path / "by rows").mkdir()
    convert_gguf(tmp_path / "model.gguf", tmp_path / "at once", no_progress)

    monkeypatch.setattr("loraplex.engine.importing.gguf_conversion.CHUNK_ELEMENTS", 200)
    convert_gguf(tmp_path / "model.gguf", tmp_path / "by rows", no_progress)

    assert (tmp_path / "at once" / "model.safetensors").read_bytes() == (
        tmp_path / "by rows" / "model.safetensors"
    ).read_bytes()


def test_progress_ends_at_the_whole_size(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", random_weights())
    reports: list[tuple[str, int, int]] = []

    convert_gguf(tmp_path / "model.gguf", tmp_path, lambda *report: reports.append(report))

    done = [report[1] for report in reports]
    assert done == sorted(done)
    assert reports[-1][1] == reports[-1][2] > 0


def test_the_tokenizer_merges_and_keeps_control_tokens_whole(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", random_weights())

    convert_gguf(tmp_path / "model.gguf", tmp_path, no_progress)

    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert tokenizer.encode("<|im_start|>ab b<|im_end|>").ids == [1, 6, 5, 4, 2]
    assert (tmp_path / "chat_template.jinja").read_text() == TEMPLATE


def test_a_tokenizer_that_begins_with_bos_adds_it(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", random_weights(), add_bos_token=True)

    convert_gguf(tmp_path / "model.gguf", tmp_path, no_progress)

    assert Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("ab").ids == [1, 6]


def test_another_architecture_is_refused_by_name(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", random_weights(), architecture="phi3")

    with pytest.raises(UnsupportedModel, match="'phi3'") as refusal:
        convert_gguf(tmp_path / "model.gguf", tmp_path, no_progress)
    assert refusal.value.field == "general.architecture"


def test_another_kind_of_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", random_weights(), tokenizer="llama")

    with pytest.raises(UnsupportedModel, match="tokenizer of kind 'llama'"):
        convert_gguf(tmp_path / "model.gguf", tmp_path, no_progress)


def test_a_tensor_that_llama_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    extra = {"blk.0.ssm_a.weight": np.zeros(4, dtype=np.float32)}
    write_gguf(tmp_path / "model.gguf", random_weights() | extra)

    with pytest.raises(UnsupportedModel, match=r"blk\.0\.ssm_a\.weight"):
        convert_gguf(tmp_path / "model.gguf", tmp_path, no_progress)


def test_a_weight_that_is_not_a_number_is_refused(tmp_path: Path) -> None:
    weights = random_weights()
    weights["output_norm.weight"][3] = np.nan
    write_gguf(tmp_path / "model.gguf", weights)

    with pytest.raises(CorruptModelSource, match=r"model\.norm\.weight"):
        convert_gguf(tmp_path / "model.gguf", tmp_path, no_progress)
