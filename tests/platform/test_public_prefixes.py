"""What an operator may declare public, and how a bad declaration is refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loraplex.platform.public_prefixes import (
    MAX_FILE_BYTES,
    MAX_PREFIXES,
    InvalidPublicPrefix,
    read_public_prefixes,
)


def test_without_a_folder_nothing_is_public() -> None:
    assert read_public_prefixes(None) == {}


def test_every_text_file_is_a_prefix_without_its_last_line_break(tmp_path: Path) -> None:
    (tmp_path / "support.txt").write_bytes("Answer in one line.\n\nBe kind – always.\n".encode())
    (tmp_path / "windows.txt").write_bytes(b"Answer.\r\n")
    (tmp_path / "bare.txt").write_bytes(b"Answer.")
    (tmp_path / "README.md").write_text("not one of them")
    (tmp_path / "folder.txt").mkdir()
    assert read_public_prefixes(tmp_path) == {
        "bare.txt": "Answer.",
        "support.txt": "Answer in one line.\n\nBe kind – always.",
        "windows.txt": "Answer.",
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "empty"), (b"\n", "empty"), (b"\xff", "UTF-8"), (b"a" * (MAX_FILE_BYTES + 1), "large")],
    ids=["empty", "a line break", "not UTF-8", "too large"],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(InvalidPublicPrefix, match=says) as refused:
        read_public_prefixes(tmp_path)
    assert refused.value.field == "LORAPLEX_PUBLIC_PREFIXES_DIR"
    assert refused.value.value == "bad.txt"


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPublicPrefix, match="not a folder"):
        read_public_prefixes(tmp_path / "nowhere")


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    for number in range(MAX_PREFIXES + 1):
        (tmp_path / f"{number}.txt").write_text("Answer.")
    with pytest.raises(InvalidPublicPrefix, match=f"{MAX_PREFIXES + 1} prefixes"):
        read_public_prefixes(tmp_path)


def test_a_start_with_a_bad_declaration_is_refused_before_anything_runs(tmp_path: Path) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "loraplex.platform.cli", "serve", "--port", "1"],
        env=os.environ
        | {
            "LORAPLEX_DATA_DIR": str(tmp_path / "data"),
            "LORAPLEX_PUBLIC_PREFIXES_DIR": str(tmp_path / "nowhere"),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode == 1
    assert "LORAPLEX_PUBLIC_PREFIXES_DIR" in refused.stderr
    assert "Traceback" not in refused.stderr
