"""Every kernel computes what the reference computes, in Triton's interpreter.

Triton decides when it is first imported whether it interprets, so the grids (`interpreted_*.py`)
run in processes of their own, and the interpreter never meets the tests that compile.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("op", ["sgmv", "attention", "write_kv"])
def test_triton_agrees_with_the_reference(op: str) -> None:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider",
            "--noconftest", FOLDER / f"interpreted_{op}.py",
        ],
        env=environment | {"TRITON_INTERPRET": "1"},
        cwd=FOLDER.parents[3],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
