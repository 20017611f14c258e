"""A model directory appears whole, once, or not at all."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loraplex.engine.importing.directory import make_model_directory
from loraplex.engine.importing.errors import ModelNameTaken
from loraplex.engine.importing.gguf_conversion import convert_gguf
from loraplex.engine.importing.progress import no_progress
from loraplex.engine.protocol.errors import UnsupportedModel
from tests.engine.importing.tiny_gguf import random_weights, write_gguf


def fill_with_tiny_model(directory: Path) -> None:
    write_gguf(directory / "source.gguf", random_weights())
    convert_gguf(directory / "source.gguf", directory, no_progress)
    (directory / "source.gguf").unlink()


def visible(models_dir: Path) -> list[str]:
    return sorted(path.name for path in models_dir.iterdir() if path.name != ".importing.lock")


def test_the_directory_holds_the_model_and_its_table(tmp_path: Path) -> None:
    made = make_model_directory(tmp_path, "tiny", "here", fill_with_tiny_model)

    assert made == tmp_path / "tiny"
    assert {"config.json", "model.safetensors", "loraplex.json"} <= set(visible(made))
    assert visible(tmp_path) == ["tiny"]


def test_the_same_origin_again_changes_nothing(tmp_path: Path) -> None:
    made = make_model_directory(tmp_path, "tiny", "here", fill_with_tiny_model)
    before = {path: path.stat().st_mtime_ns for path in made.iterdir()}

    again = make_model_directory(tmp_path, "tiny", "here", lambda _: pytest.fail("filled twice"))

    assert again == made
    assert {path: path.stat().st_mtime_ns for path in made.iterdir()} == before


def test_another_origin_cannot_take_the_name(tmp_path: Path) -> None:
    make_model_directory(tmp_path, "tiny", "here", fill_with_tiny_model)

    with pytest.raises(ModelNameTaken, match="came from here, not from there"):
        make_model_directory(tmp_path, "tiny", "there", fill_with_tiny_model)


def test_a_failed_import_leaves_nothing(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "half.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_model_directory(tmp_path, "tiny", "here", fail)
    assert visible(tmp_path) == []


def test_a_model_that_is_not_served_does_not_appear(tmp_path: Path) -> None:
    def fill(directory: Path) -> None:
        fill_with_tiny_model(directory)
        (directory / "tokenizer.json").unlink()

    with pytest.raises(UnsupportedModel, match=r"tokenizer\.json"):
        make_model_directory(tmp_path, "tiny", "here", fill)
    assert visible(tmp_path) == []


def test_what_a_killed_import_left_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".importing-killed").mkdir()
    (tmp_path / ".importing-killed" / "half").write_bytes(b"half")

    make_model_directory(tmp_path, "tiny", "here", fill_with_tiny_model)

    assert visible(tmp_path) == ["tiny"]


def test_imports_at_the_same_time_fill_it_once(tmp_path: Path) -> None:
    filled = []

    def fill(directory: Path) -> None:
        filled.append(directory)
        fill_with_tiny_model(directory)

    def make() -> Path:
        # Each call opens the lock file anew, so threads exclude each other as processes do.
        return make_model_directory(tmp_path, "tiny", "here", fill)

    with ThreadPoolExecutor(3) as pool:
        made = [future.result() for future in [pool.submit(make) for _ in range(3)]]

    assert made == [tmp_path / "tiny"] * 3
    assert len(filled) == 1
