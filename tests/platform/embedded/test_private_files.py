"""Secrets on disk: modes, and whole or not at all."""

import stat
from pathlib import Path

import pytest

from loraplex.platform.embedded.private_files import (
    private_dir,
    remembered_secret,
    write_private,
)


def test_a_secret_is_made_once_and_private(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "secret"
    secret = remembered_secret(file)
    assert len(secret) == 40
    assert secret.isalnum()
    assert remembered_secret(file) == secret
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_writing_replaces_a_public_file_by_a_private_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o644)
    write_private(file, "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_a_write_that_fails_leaves_the_old_text_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_private(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_private(file, "half\ud800")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert private_dir(tmp_path) == tmp_path
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
