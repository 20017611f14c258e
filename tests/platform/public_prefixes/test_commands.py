"""`loraplex prefix`: what operators declare without a gateway."""

from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

from loraplex.platform.public_prefixes.commands import prefix

pytestmark = pytest.mark.usefixtures("operators_environment")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(prefix, list(arguments))


def test_a_file_is_declared_without_its_last_line_break_and_withdrawn(tmp_path: Path) -> None:
    name, file = f"p-{uuid4().hex[:8]}", tmp_path / "prompt.txt"
    file.write_bytes("Be kind – always.\n\n".encode())
    declared = run("declare", name, str(file))
    assert (declared.exit_code, declared.output.strip()) == (0, f"{name} is public.")
    (line,) = [line for line in run("list").output.splitlines() if name in line]
    assert "20 bytes" in line
    assert "command line" in line
    assert run("withdraw", name).exit_code == 0
    assert name not in run("list").output
    gone = run("withdraw", name)
    assert gone.exit_code == 1
    assert f"There is no public prefix '{name}'" in gone.output


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "prompt.bin"
    file.write_bytes(b"\xff\xfe")
    refused = run("declare", "binary", str(file))
    assert refused.exit_code == 2
    assert "UTF-8" in refused.output
    file.write_bytes(b"\n")
    refused = run("declare", "empty", str(file))
    assert refused.exit_code == 1
    assert "0 bytes" in refused.output
