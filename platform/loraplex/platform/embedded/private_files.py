"""Files and folders that hold secrets: made for the owner only, replaced whole or not at all."""

import os
import secrets
import string
import tempfile
from pathlib import Path

_ALPHABET = string.ascii_letters + string.digits


def private_dir(path: Path) -> Path:
    """Make a folder of mode 0700 with its missing parents; an existing one keeps its mode."""
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def write_private(path: Path, text: str) -> None:
    """Replace a file by one of mode 0600, durably; readers see the old text or the new one."""
    private_dir(path.parent)
    # mkstemp makes the file with mode 0600 before the first byte is in it.
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def new_secret(characters: int = 40) -> str:
    """Random letters and digits, safe in a URL, a configuration file and a header."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(characters))


def remembered_secret(path: Path) -> str:
    """The secret in the file, made at the first call."""
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        text = ""
    if not text:
        text = new_secret()
        write_private(path, text)
    return text
