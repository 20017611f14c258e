"""Digests of what a tensor says, whatever it is stored as: its values as float32."""

import hashlib
from pathlib import Path
from typing import Final

from loraplex.engine.protocol.identity import Digest

_CHUNK_BYTES: Final = 4 * 2**20


def digest_of_values(path: Path, dtype: str, start: int, end: int) -> Digest:
    """SHA-256 of the little-endian float32 values of a tensor at these bytes of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(start)
        for place in range(start, end, _CHUNK_BYTES):
            found.update(_as_float32(file.read(min(_CHUNK_BYTES, end - place)), dtype))
    return Digest("sha256:" + found.hexdigest())


def _as_float32(data: bytes, dtype: str) -> bytes:
    if dtype == "F32":
        return data
    if dtype == "BF16":  # the upper half of a float32
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[::2], data[1::2]
        return bytes(wide)
    # Only here: who describes a model on the command line waits for every import.
    import numpy as np

    return np.frombuffer(data, "<f2").astype("<f4").tobytes()
