"""A description tells what the model's own linears are, from headers alone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from loraplex.engine.protocol.describe import (
    MODULE_TABLE_FILE,
    describe_model,
    load_or_describe,
    locate_model,
)
from loraplex.engine.protocol.errors import UnsupportedModel
from loraplex.engine.protocol.identity import digest_of_bytes
from loraplex.engine.protocol.module_table import ModuleTable
from tests.engine.protocol.tiny_models import ARCHITECTURES, edit_json, save_tiny_model

SEVEN = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


@pytest.fixture
def model_dir(tmp_path: Path) -> Path:
    save_tiny_model(tmp_path / "tiny", "LlamaForCausalLM")
    return tmp_path / "tiny"


def copy_of(model_dir: Path, name: str) -> Path:
    return Path(shutil.copytree(model_dir, model_dir.parent / name))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("tie_word_embeddings", [True, False])
def test_the_modules_are_the_seven_linears_at_their_true_shapes(
    tmp_path: Path, architecture: str, tie_word_embeddings: bool
) -> None:
    model = save_tiny_model(tmp_path, architecture, tie_word_embeddings=tie_word_embeddings)

    table = describe_model(tmp_path, "tiny")

    assert table.architecture == architecture
    assert {module.linear for module in table.modules} == SEVEN
    assert len(table.modules) == 7 * table.layers == 14
    linears = dict(model.named_modules())
    for module in table.modules:
        weight: Any = linears[module.path].weight
        assert tuple(weight.shape) == (module.out_features, module.in_features)
        assert module.path.startswith(f"model.layers.{module.layer}.")


def test_a_head_size_that_is_not_a_share_of_the_hidden_size_counts(tmp_path: Path) -> None:
    save_tiny_model(tmp_path, "Qwen3ForCausalLM", head_dim=16)

    shapes = describe_model(tmp_path, "tiny").by_path()

    assert shapes["model.layers.0.self_attn.q_proj"].out_features == 4 * 16
    assert shapes["model.layers.0.self_attn.o_proj"].in_features == 4 * 16


@pytest.mark.parametrize("changes", [{"attention_bias": True}, {"mlp_bias": True}])
def test_biases_that_the_config_tells_of_are_expected(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    save_tiny_model(tmp_path, "LlamaForCausalLM", **changes)
    describe_model(tmp_path, "tiny")
    edit_json(tmp_path / "config.json", **dict.fromkeys(changes, False))

    with pytest.raises(UnsupportedModel, match="bias, which LlamaForCausalLM does not use"):
        describe_model(tmp_path, "tiny")


def test_shards_are_read_as_one_model(tmp_path: Path) -> None:
    save_tiny_model(tmp_path / "whole", "Qwen2ForCausalLM")
    save_tiny_model(tmp_path / "shards", "Qwen2ForCausalLM", max_shard_size="10KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1

    whole = describe_model(tmp_path / "whole", "tiny")
    shards = describe_model(tmp_path / "shards", "tiny")

    assert whole.modules == shards.modules
    assert whole.base_digest != shards.base_digest


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    save_tiny_model(tmp_path, "LlamaForCausalLM", max_shard_size="10KB")
    lost = sorted(tmp_path.glob("*.safetensors"))[1]
    lost.unlink()

    with pytest.raises(UnsupportedModel, match=lost.name):
        describe_model(tmp_path, "tiny")


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "weights.bin"])
def test_an_index_cannot_point_elsewhere(model_dir: Path, name: str) -> None:
    (model_dir / "model.safetensors").unlink()
    index = {"weight_map": {"model.norm.weight": name}}
    (model_dir / "model.safetensors.index.json").write_text(json.dumps(index))

    with pytest.raises(UnsupportedModel, match="no safetensors file beside it"):
        describe_model(model_dir, "tiny")


def test_the_digest_is_the_files_and_not_the_place(model_dir: Path) -> None:
    copy = copy_of(model_dir, "elsewhere")
    (copy / "README.md").write_text("not a part of the model")
    load_or_describe(copy, None, copy)

    assert describe_model(copy, "a").base_digest == describe_model(model_dir, "b").base_digest


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_the_digest_changes_with_every_file_of_the_model(model_dir: Path, name: str) -> None:
    before = describe_model(model_dir, "tiny").base_digest

    (model_dir / name).write_text((model_dir / name).read_text() + "\n")

    assert describe_model(model_dir, "tiny").base_digest != before


def test_one_flipped_bit_of_a_weight_changes_the_digest(model_dir: Path) -> None:
    before = describe_model(model_dir, "tiny").base_digest

    weights = bytearray((model_dir / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (model_dir / "model.safetensors").write_bytes(weights)

    assert describe_model(model_dir, "tiny").base_digest != before


@pytest.mark.parametrize(
    ("generation", "config", "expected"),
    [
        (7, 2, (7,)),
        ([7, 5, 7], 2, (7, 5)),
        (None, 2, (2,)),
        (None, [3, 4], (3, 4)),
        (None, None, ()),
    ],
)
def test_end_tokens_are_the_generation_configs_else_the_configs(
    model_dir: Path, generation: Any, config: Any, expected: tuple[int, ...]
) -> None:
    edit_json(model_dir / "generation_config.json", eos_token_id=generation)
    edit_json(model_dir / "config.json", eos_token_id=config)

    assert describe_model(model_dir, "tiny").eos_token_ids == expected


def test_end_tokens_that_are_no_tokens_are_refused(model_dir: Path) -> None:
    edit_json(model_dir / "generation_config.json", eos_token_id="</s>")

    with pytest.raises(UnsupportedModel, match="eos_token_id"):
        describe_model(model_dir, "tiny")


@pytest.mark.parametrize("field", ["tokenizer.json", "model.safetensors", "config.json"])
def test_a_missing_file_is_named(model_dir: Path, field: str) -> None:
    (model_dir / field).unlink()

    with pytest.raises(UnsupportedModel, match=field) as refusal:
        describe_model(model_dir, "tiny")
    assert (refusal.value.field, refusal.value.value) == (field, "missing")


def test_pickled_weights_are_refused_as_such(model_dir: Path) -> None:
    (model_dir / "model.safetensors").rename(model_dir / "pytorch_model.bin")

    with pytest.raises(UnsupportedModel, match="a pickle, which can run code") as refusal:
        describe_model(model_dir, "tiny")
    assert refusal.value.value == "pytorch_model.bin"


def test_an_adapter_is_told_from_a_base_model(model_dir: Path) -> None:
    (model_dir / "model.safetensors").unlink()
    (model_dir / "adapter_config.json").write_text("{}")

    with pytest.raises(UnsupportedModel, match="a LoRA adapter, not a base model"):
        describe_model(model_dir, "tiny")


def test_a_tensor_of_another_shape_is_named_with_both_shapes(model_dir: Path) -> None:
    edit_json(model_dir / "config.json", intermediate_size=50)

    with pytest.raises(UnsupportedModel, match=r"\[48, 32\]; config.json implies shape \[50, 32\]"):
        describe_model(model_dir, "tiny")


def test_fewer_layers_than_the_file_holds_are_not_served(model_dir: Path) -> None:
    edit_json(model_dir / "config.json", num_hidden_layers=1)

    with pytest.raises(UnsupportedModel, match=r"hold model\.layers\.1\."):
        describe_model(model_dir, "tiny")


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, (99).to_bytes(8, "little") + b"[]" * 60])
def test_a_weights_file_that_is_no_safetensors_file_is_refused(
    model_dir: Path, content: bytes
) -> None:
    (model_dir / "model.safetensors").write_bytes(content)

    with pytest.raises(UnsupportedModel, match="not a safetensors file"):
        describe_model(model_dir, "tiny")


@pytest.mark.parametrize("name", ["a/b", "a:b", "a@b", "", ".hidden", "ä"])
def test_a_name_that_callers_could_not_write_is_refused(model_dir: Path, name: str) -> None:
    with pytest.raises(UnsupportedModel, match="cannot be a model's name"):
        describe_model(model_dir, name)


def test_a_kept_table_is_used_while_the_files_stand(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_or_describe(model_dir, None, model_dir)
    monkeypatch.setattr(
        "loraplex.engine.protocol.describe.describe_model", lambda *_: pytest.fail("described")
    )

    assert load_or_describe(model_dir, None, model_dir) == first
    assert load_or_describe(model_dir, "other", model_dir).base_name == "other"
    assert (model_dir / MODULE_TABLE_FILE).is_file()


def test_a_kept_table_does_not_outlive_the_weights(model_dir: Path) -> None:
    before = load_or_describe(model_dir, None, model_dir)
    other = model_dir.parent / "other"
    save_tiny_model(other, "LlamaForCausalLM", initializer_range=0.5)

    (other / "model.safetensors").replace(model_dir / "model.safetensors")

    after = load_or_describe(model_dir, None, model_dir)
    assert after.base_digest != before.base_digest


@pytest.mark.parametrize("content", ["", "{}", '{"table": {}, "files": {}}', "[1"])
def test_a_kept_table_that_cannot_be_read_is_made_anew(model_dir: Path, content: str) -> None:
    expected = load_or_describe(model_dir, None, model_dir)
    (model_dir / MODULE_TABLE_FILE).write_text(content)

    assert load_or_describe(model_dir, None, model_dir) == expected


def test_a_table_is_kept_elsewhere_where_the_model_cannot_be_written(
    model_dir: Path, tmp_path: Path
) -> None:
    # A directory of that name refuses the file to any user, root too.
    (model_dir / MODULE_TABLE_FILE).mkdir()

    described = load_or_describe(model_dir, None, tmp_path / "cache")

    kept = list((tmp_path / "cache").iterdir())
    assert len(kept) == 1
    assert described.base_digest in kept[0].read_text()
    assert sorted(path.name for path in model_dir.glob("*.partial")) == []


def test_models_are_found_by_name_and_by_path(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert locate_model("tiny", tmp_path) == model_dir
    assert locate_model(str(model_dir), tmp_path / "models") == model_dir
    assert locate_model("./tiny", tmp_path / "models") == model_dir
    assert locate_model("..", tmp_path / "models").samefile(tmp_path.parent)


def test_a_model_that_is_nowhere_is_refused_with_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="loraplex model import") as refusal:
        locate_model("gone", tmp_path / "models")

    assert str(tmp_path / "models" / "gone") in refusal.value.message


def test_describing_imports_neither_torch_nor_numpy(model_dir: Path) -> None:
    script = (
        "import sys; from pathlib import Path; "
        "from loraplex.engine.protocol.describe import describe_model; "
        "import msgspec; print(msgspec.json.encode(describe_model(Path(sys.argv[1]), 'tiny'))"
        ".decode()); assert not {'torch', 'numpy', 'safetensors'} & sys.modules.keys()"
    )

    printed = subprocess.run(
        [sys.executable, "-c", script, str(model_dir)],
        capture_output=True,
        check=True,
        timeout=60,
    )

    table = msgspec.json.decode(printed.stdout, type=ModuleTable)
    assert table == describe_model(model_dir, "tiny")


@pytest.mark.parametrize("is_tied", [True, False])
def test_the_tables_of_tokens_have_the_digest_of_their_values(
    tmp_path: Path, is_tied: bool
) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        model = save_tiny_model(tmp_path, "LlamaForCausalLM", tie_word_embeddings=is_tied)
        narrow: Any = model
        narrow = narrow.to(torch.float16).to(dtype)
        narrow.save_pretrained(tmp_path)
        table = describe_model(tmp_path, "tiny")
        weights = {
            "model.embed_tokens": narrow.get_input_embeddings().weight,
            "lm_head": narrow.get_output_embeddings().weight,
        }
        assert table.is_tied == is_tied
        assert table.table_digests == {
            path: digest_of_bytes(weight.detach().float().numpy().tobytes())
            for path, weight in weights.items()
        }


def test_a_table_kept_by_an_older_release_is_made_again(model_dir: Path) -> None:
    table = load_or_describe(model_dir, None, model_dir)
    kept = json.loads((model_dir / MODULE_TABLE_FILE).read_bytes())
    del kept["format"], kept["table"]["table_digests"]
    (model_dir / MODULE_TABLE_FILE).write_text(json.dumps(kept))
    assert load_or_describe(model_dir, None, model_dir) == table
    assert table.table_digests
