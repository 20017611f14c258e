"""The script for CUDA machines follows all its steps on a CPU, and says what it left out."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("run.py")


def lines_of(*arguments: str, path: Path | None = None) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and JSON lines; `path` holds packages that stand before all others."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(path or ""),
        "CUDA_VISIBLE_DEVICES": "",
    }
    ran = subprocess.run(
        [sys.executable, SCRIPT, *arguments], env=environment, capture_output=True, check=False
    )
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("mode", ["test", "bench"])
def test_every_case_passes_on_the_reference_kernels(mode: str) -> None:
    code, lines = lines_of(mode, "--dry-run")
    assert [line for line in lines if line.get("passed") is False] == []
    assert (code, lines[-1]["failed"], lines[-1]["skipped"]) == (0, 0, 0)
    assert lines[-1]["passed"] == len(lines) - 2


def test_without_the_engines_packages_the_kernels_are_tested_all_the_same(tmp_path: Path) -> None:
    hidden = "import sys\nfrom importlib.abc import MetaPathFinder\n\n\n"
    hidden += "class Hidden(MetaPathFinder):\n    def find_spec(self, name, path, target=None):\n"
    hidden += "        if name in ('msgspec', 'safetensors'):\n"
    hidden += "            raise ModuleNotFoundError(name)\n\n\nsys.meta_path.insert(0, Hidden())\n"
    (tmp_path / "sitecustomize.py").write_text(hidden)
    code, lines = lines_of("test", "--dry-run", path=tmp_path)
    assert code == 0
    assert lines[0]["missing"] == ["msgspec", "safetensors"]
    assert "pip install" in lines[1]["note"]
    assert lines[-1]["passed"] > 50
    assert lines[-1]["skipped"] == 1


def test_no_case_begins_after_the_deadline() -> None:
    code, lines = lines_of("bench", "--dry-run", "--deadline", "0")
    assert code == 0
    assert lines[-1]["passed"] == 0
    assert lines[-1]["skipped"] == len(lines) - 2


def test_without_a_device_nothing_passes() -> None:
    code, lines = lines_of("test")
    assert code == 1
    assert "CUDA" in lines[0]["error"]
