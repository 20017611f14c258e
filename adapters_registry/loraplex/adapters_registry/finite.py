"""Finds NaN and infinities in a file of any size, a few megabytes at a time."""

from pathlib import Path
from typing import BinaryIO

import numpy as np

from loraplex.adapters_registry.safetensors_guard import Header, TensorEntry

CHUNK_BYTES = 4 * 1024 * 1024

# A number whose exponent bits are all set is NaN or infinite, in each of these formats; bits are
# compared because NumPy has no bfloat16.
EXPONENT_MASKS = {"F32": ("<u4", 0x7F800000), "F16": ("<u2", 0x7C00), "BF16": ("<u2", 0x7F80)}


def find_not_finite(path: Path, header: Header) -> list[str]:
    """The names of tensors that hold a NaN or an infinity, in the order of the file."""
    entries = sorted(header.tensors.values(), key=lambda entry: entry.start)
    with path.open("rb") as file:
        return [entry.name for entry in entries if not is_finite(file, entry)]


def is_finite(file: BinaryIO, entry: TensorEntry) -> bool:
    kind, mask = EXPONENT_MASKS[entry.dtype]
    file.seek(entry.start)
    for start in range(entry.start, entry.end, CHUNK_BYTES):
        size = min(CHUNK_BYTES, entry.end - start)
        bits = np.frombuffer(file.read(size), dtype=np.dtype(kind))
        if np.any((bits & mask) == mask):
            return False
    return True
