"""Where a blob's bytes are before they lie under their digest."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Protocol

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads.registration import Owner, StoredFile
from loraplex.engine.protocol.identity import Digest, digest_of_bytes, digest_of_file
from loraplex.platform.blobs import blob_key


class BlobSource(Protocol):
    """Bytes whose digest we computed ourselves, and how they get under a key. Calls block."""

    @property
    def digest(self) -> Digest: ...
    @property
    def size_bytes(self) -> int: ...
    def put(self, store: ObjectStore, key: str) -> None: ...


@dataclass(frozen=True)
class BytesSource:
    """A small file in memory."""

    data: bytes

    @property
    def digest(self) -> Digest:
        return digest_of_bytes(self.data)

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def put(self, store: ObjectStore, key: str) -> None:
        store.put(key, BytesIO(self.data))


@dataclass(frozen=True)
class FileSource:
    """A file on this machine's disk."""

    path: Path
    digest: Digest
    size_bytes: int

    @classmethod
    def of(cls, path: Path) -> "FileSource":
        """Reads the whole file."""
        return cls(path, digest_of_file(path), path.stat().st_size)

    def put(self, store: ObjectStore, key: str) -> None:
        with self.path.open("rb") as file:
            store.put(key, file)


@dataclass(frozen=True)
class ObjectSource:
    """An object of the same store, which nobody can change any more."""

    key: str
    digest: Digest
    size_bytes: int

    def put(self, store: ObjectStore, key: str) -> None:
        store.copy(self.key, key)


def store_once(store: ObjectStore, owner: Owner, source: BlobSource) -> StoredFile:
    """Put the bytes under their digest, unless the tenant has them there already. Blocks."""
    key = blob_key(owner.namespace, source.digest)
    if store.size_bytes(key) != source.size_bytes:
        source.put(store, key)
    return StoredFile(source.digest, source.size_bytes)
