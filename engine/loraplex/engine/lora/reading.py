"""Reads an adapter's file once and hashes what it reads, so that a check costs no pass of its own.

What is compared with the digest are the bytes that were handed out, not bytes that some earlier
read saw: a bit that flips on the disk after a check is caught by the next read.
"""

import hashlib
import os
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from loraplex.engine.adapter_source import AdapterBytes
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.identity import Digest

Words = npt.NDArray[Any]
"""Elements as integers of their size: most of them are copied and never looked at."""

READ_BYTES: Final = 256 * 1024
"""Read and hashed at a time: what was just read is still in the cache of the core."""


class WrongBytes(AdapterUnavailable):
    """The file is not the one its digest speaks of."""


class HashedReader:
    """One pass over an open file, from its start to its end; gaps are read and hashed, too."""

    def __init__(self, file: AdapterBytes) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._hashed_to = 0
        self._scratch = np.empty(0, dtype=np.uint8)

    def fill(self, words: Words, start: int) -> None:
        """Fill `words` from the file, from byte `start` on: behind all that was read before.

        The interpreter is free meanwhile. Raises WrongBytes where the file ends before.
        """
        assert start >= self._hashed_to, "a second read of a byte would not be checked"
        self._hash_to(start)
        missing = words.data.cast("B")
        while missing:
            count = self._read(missing[:READ_BYTES], start)
            missing, start = missing[count:], start + count

    def finish(self, size_bytes: int) -> Digest:
        """Read what is left, and tell the digest of all that was read."""
        self._hash_to(size_bytes)
        return Digest(f"sha256:{self._hash.hexdigest()}")

    def _hash_to(self, end: int) -> None:
        while self._hashed_to < end:
            if not len(self._scratch):
                self._scratch = np.empty(READ_BYTES, dtype=np.uint8)
            self._read(self._scratch.data[: end - self._hashed_to], self._hashed_to)

    def _read(self, place: memoryview, start: int) -> int:
        self._file.wait_for(start + len(place))
        count = os.preadv(self._file.handle, [place], start)
        if count == 0:
            raise WrongBytes("The adapter's file ended before its last tensor.")
        self._hash.update(place[:count])
        self._hashed_to = start + count
        return count
