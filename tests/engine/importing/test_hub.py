"""A model of the hub comes over real HTTP; never its code, never pickles, never half."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loraplex.engine.importing import import_model
from loraplex.engine.importing.errors import (
    ModelSourceNotFound,
    ModelSourceUnavailable,
    UnknownModelSource,
)
from loraplex.engine.importing.gguf_conversion import convert_gguf
from loraplex.engine.importing.progress import no_progress
from loraplex.engine.protocol.describe import load_or_describe
from loraplex.engine.protocol.errors import UnsupportedModel
from tests.engine.importing.hub_server import Hub, running_hub
from tests.engine.importing.tiny_gguf import random_weights, write_gguf

RUN = "from loraplex.engine.commands import model; model()"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    files = tmp_path / "repository"
    files.mkdir()
    write_gguf(tmp_path / "model.gguf", random_weights())
    convert_gguf(tmp_path / "model.gguf", files, no_progress)
    for unwanted in ("modeling_evil.py", "pytorch_model.bin", "README.md", "model.onnx"):
        (files / unwanted).write_text("must not be fetched")
    with running_hub(Hub("Some-Lab/Tiny-1.5B", files)) as running:
        yield running


@pytest.fixture
def to_hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """Makes imports of this process go to the hub."""
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return hub


def import_by_command(
    endpoint: str, source: str, models_dir: Path
) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(models_dir),
        "HF_HOME": str(models_dir / "hf"),
        "HF_ENDPOINT": endpoint,
        "NO_PROXY": "127.0.0.1",
    }
    command = [sys.executable, "-c", RUN, "import", source, "--models-dir", str(models_dir)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def models_in(models_dir: Path) -> list[str]:
    return sorted(path.name for path in models_dir.glob("*") if (path / "config.json").exists())


def test_the_command_fetches_a_model_that_can_be_served(hub: Hub, tmp_path: Path) -> None:
    finished = import_by_command(hub.url, "hf:Some-Lab/Tiny-1.5B", tmp_path / "models")

    assert finished.returncode == 0, finished.stderr
    directory = tmp_path / "models" / "tiny-1.5b"
    assert load_or_describe(directory, None, tmp_path).base_name == "tiny-1.5b"
    for name in ("model.safetensors", "tokenizer.json", "chat_template.jinja"):
        assert (directory / name).read_bytes() == (hub.files / name).read_bytes()


def test_neither_code_nor_pickles_are_fetched(to_hub: Hub, tmp_path: Path) -> None:
    import_model("hf:Some-Lab/Tiny-1.5B@v1", tmp_path)

    assert sorted(to_hub.fetched) == [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_an_architecture_that_is_not_served_costs_no_weights(to_hub: Hub, tmp_path: Path) -> None:
    config = json.loads((to_hub.files / "config.json").read_text())
    config["architectures"] = ["MambaForCausalLM"]
    (to_hub.files / "config.json").write_text(json.dumps(config))

    with pytest.raises(UnsupportedModel, match="MambaForCausalLM is not served"):
        import_model("hf:Some-Lab/Tiny-1.5B", tmp_path / "models")
    assert to_hub.fetched == ["config.json"]
    assert models_in(tmp_path / "models") == []


def test_a_model_with_pickled_weights_only_is_refused(to_hub: Hub, tmp_path: Path) -> None:
    (to_hub.files / "model.safetensors").unlink()

    with pytest.raises(UnsupportedModel, match="pickled weights are never fetched"):
        import_model("hf:Some-Lab/Tiny-1.5B", tmp_path)
    assert to_hub.fetched == []


def test_a_model_that_is_not_there_is_said_so(to_hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(ModelSourceNotFound, match=r"no hf:Some-Lab/Other"):
        import_model("hf:Some-Lab/Other", tmp_path)
    assert to_hub.fetched == []


def test_a_gated_model_says_how_to_get_it(to_hub: Hub, tmp_path: Path) -> None:
    to_hub.error_status, to_hub.error_code = 403, "GatedRepo"

    with pytest.raises(ModelSourceNotFound, match=r"terms to be accepted.*HF_TOKEN"):
        import_model("hf:Some-Lab/Gated", tmp_path)


def test_a_hub_that_fails_is_unavailable(to_hub: Hub, tmp_path: Path) -> None:
    to_hub.error_status, to_hub.error_code = 500, "Internal"

    with pytest.raises(ModelSourceUnavailable, match="answered with an error"):
        import_model("hf:Some-Lab/Other", tmp_path)


def test_without_a_network_it_says_so_in_one_sentence(tmp_path: Path) -> None:
    finished = import_by_command("http://hub.invalid", "hf:Some-Lab/Tiny-1.5B", tmp_path)

    assert finished.returncode == 1
    assert "could not be fetched from the Hugging Face hub: there is no network" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_without_the_hubs_package_it_says_what_to_install(tmp_path: Path) -> None:
    absent = f"import sys; sys.modules['huggingface_hub'] = None; {RUN}"
    command = [sys.executable, "-c", absent, "import", "hf:a/b", "--models-dir", str(tmp_path)]

    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert finished.returncode == 1
    assert "pip install 'loraplex[hub]'" in finished.stderr


@pytest.mark.parametrize("source", ["hf:", "hf:tiny", "hf:a/b/c", "hf:../etc", "hf:a/b..c"])
def test_what_is_no_repository_is_refused_without_asking(tmp_path: Path, source: str) -> None:
    with pytest.raises(UnknownModelSource, match="hf:OWNER/NAME"):
        import_model(source, tmp_path / "models")
    assert models_in(tmp_path / "models") == []
