"""Takes an adapter's two files out of an archive, writing no more than they may have."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from loraplex.adapters_registry.uploads.archives.rules import refuse
from loraplex.adapters_registry.uploads.archives.tar_reader import read_tar_gz
from loraplex.adapters_registry.uploads.archives.zip_reader import read_zip
from loraplex.adapters_registry.uploads.errors import EmptyUpload, UploadTooLarge

READERS = {b"PK\x03\x04": read_zip, b"\x1f\x8b": read_tar_gz}


def expand(archive: Path, folder: Path, limits: Mapping[str, int]) -> dict[str, Path]:
    """The two files, written to `folder`, by name. Blocks; memory stays bounded.

    `limits` are the bytes each may have. What the archive is, its first bytes say. Raises
    ArchiveRefused, UploadTooLarge and EmptyUpload, before anything larger than the limits is read.
    """
    with archive.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        reader = next((read for magic, read in READERS.items() if start.startswith(magic)), None)
        if reader is None:
            raise refuse("", "is neither a .zip nor a .tar.gz", ".zip or .tar.gz")
        written = {}
        for name, size_bytes, chunks in reader(file, sum(limits.values())):
            if size_bytes == 0:
                raise EmptyUpload(name)
            if size_bytes > limits[name]:
                raise UploadTooLarge(name, size_bytes, limits[name])
            written[name] = _write(folder / name, chunks)
    return written


def _write(path: Path, chunks: Iterator[bytes]) -> Path:
    with path.open("xb") as file:
        for chunk in chunks:
            file.write(chunk)
    return path
