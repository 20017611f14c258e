"""What an upload may consist of, and how its files are cut into parts."""

from collections.abc import Sequence
from dataclasses import dataclass

from loraplex.adapters_registry.uploads.errors import EmptyUpload, UploadTooLarge, WrongUploadFiles

CONFIG_NAME = "adapter_config.json"
WEIGHTS_NAME = "adapter_model.safetensors"
ARCHIVE_SUFFIXES = (".zip", ".tar.gz")
MAX_NAME_CHARACTERS = 128

MIN_PART_BYTES = 5 * 1024 * 1024
"""What S3 asks of every part but the last."""
MAX_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class FileDraft:
    """A file as its owner announces it; `sha256` are 64 hex digits."""

    name: str
    size_bytes: int
    sha256: str | None = None


def is_archive(name: str) -> bool:
    return name.endswith(ARCHIVE_SUFFIXES)


def check_files(files: Sequence[FileDraft], max_config_bytes: int, max_weights_bytes: int) -> None:
    """Raise WrongUploadFiles, EmptyUpload or UploadTooLarge for what cannot be an adapter."""
    limits = {CONFIG_NAME: max_config_bytes, WEIGHTS_NAME: max_weights_bytes}
    names = [file.name for file in files]
    if len(names) == 1 and is_archive(names[0]):
        if len(names[0]) > MAX_NAME_CHARACTERS or not names[0].isprintable() or "/" in names[0]:
            raise WrongUploadFiles(
                f"An archive's name has at most {MAX_NAME_CHARACTERS} printable characters and "
                "no slash.",
                field="files[0].name",
            )
        limits = {names[0]: max_config_bytes + max_weights_bytes}
    elif sorted(names) != sorted(limits):
        raise WrongUploadFiles(
            f"An upload is {CONFIG_NAME} and {WEIGHTS_NAME}, or one archive "
            f"({' or '.join(ARCHIVE_SUFFIXES)}).",
            field="files",
            rule=f"{CONFIG_NAME} and {WEIGHTS_NAME}, or one archive",
        )
    for file in files:
        if file.size_bytes < 1:
            raise EmptyUpload(file.name)
        if file.size_bytes > limits[file.name]:
            raise UploadTooLarge(file.name, file.size_bytes, limits[file.name])


def part_bytes_of(size_bytes: int, wanted_bytes: int) -> int:
    """How large a file's parts are: as wanted, or larger where there would be too many."""
    return max(wanted_bytes, -(-size_bytes // MAX_PARTS))


def part_count(size_bytes: int, part_bytes: int) -> int:
    return -(-size_bytes // part_bytes)


def part_size_of(number: int, size_bytes: int, part_bytes: int) -> int:
    """The bytes of one part, counted from 1; the last is what is left."""
    return min(part_bytes, size_bytes - (number - 1) * part_bytes)
