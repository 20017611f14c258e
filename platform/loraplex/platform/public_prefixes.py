"""The system prompts that an operator has declared public: one text file each."""

from collections.abc import Mapping
from pathlib import Path

from loraplex.engine.protocol.errors import DomainError, Kind

PATTERN = "*.txt"
MAX_PREFIXES = 256
MAX_FILE_BYTES = 256 * 1024
SETTING = "LORAPLEX_PUBLIC_PREFIXES_DIR"


class InvalidPublicPrefix(DomainError):
    """A declaration that cannot be read, or that the base model's template cannot take."""

    kind, code, field = Kind.INVALID, "invalid_public_prefix", SETTING

    def __init__(self, path: Path | str, what: str, rule: str) -> None:
        super().__init__(f"{SETTING}: {path} {what}.", rule=rule, value=Path(path).name)


def read_public_prefixes(folder: Path | None) -> Mapping[str, str]:
    """Each file's text by the file's name; nothing where no folder is set.

    A line break at a file's end, which editors put there, does not count. Raises
    InvalidPublicPrefix: no folder, too many files, or one that is empty, too large or not UTF-8.
    """
    if folder is None:
        return {}
    if not folder.is_dir():
        raise InvalidPublicPrefix(folder, "is not a folder", "an existing folder")
    files = sorted(path for path in folder.glob(PATTERN) if path.is_file())
    if len(files) > MAX_PREFIXES:
        raise InvalidPublicPrefix(
            folder, f"has {len(files)} prefixes", f"at most {MAX_PREFIXES} files"
        )
    return {file.name: _read(file) for file in files}


def _read(file: Path) -> str:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise InvalidPublicPrefix(file, "is too large", f"at most {MAX_FILE_BYTES} bytes")
        text = file.read_bytes().decode()
    except OSError as error:
        raise InvalidPublicPrefix(
            file, f"cannot be read ({error.strerror})", "a readable file"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidPublicPrefix(file, "is not UTF-8", "UTF-8 text") from error
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise InvalidPublicPrefix(file, "is empty", "at least one character")
    return text
