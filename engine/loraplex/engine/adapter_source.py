"""What the engine needs of whoever keeps adapters: their files' bytes, by reference."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.workers import TierLoad


class AdapterBytes(Protocol):
    """An open file whose bytes may still be on their way."""

    @property
    def handle(self) -> int:
        """To be read at given places only."""
        ...

    def wait_for(self, end: int) -> None:
        """Block until the bytes before `end` lie in the file; raises TransferBroke."""
        ...


class WholeFile:
    """One that has come."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def wait_for(self, end: int) -> None:
        pass


class AdapterSource(Protocol):
    """Called on loader threads, where it may block."""

    def fetch(self, ref: AdapterRef) -> Path:
        """A local copy of the adapter's safetensors file. Raises AdapterUnavailable.

        Its bytes are not verified: the engine hashes them while it reads them, so that every read
        is checked and none is made for the check alone.
        """
        ...

    @contextmanager
    def follow(self, ref: AdapterRef) -> Iterator[AdapterBytes | None]:
        """The file while it comes; None where it is here already, or cannot be read along.

        Raises AdapterUnavailable.
        """
        yield None

    def distrust(self, ref: AdapterRef) -> None:
        """The file that was fetched last had other bytes than its digest says: get it anew."""
        return

    def forget(self, namespaces: Sequence[TenantNamespace]) -> None:
        """These tenants are deleted: keep no file of theirs. Idempotent."""
        return

    def tiers(self) -> tuple[TierLoad, ...]:
        """How the tiers below the engine have been doing, for operators."""
        return ()


@contextmanager
def whole_file(path: Path) -> Iterator[WholeFile]:
    """A file that has come, open. Raises FileNotFoundError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield WholeFile(handle)
    finally:
        os.close(handle)
