"""Finds weights that the engine could not hold: NaN, infinities, and what float16 has no room for.

A file of any size is read a few megabytes at a time.
"""

from pathlib import Path
from typing import BinaryIO

import numpy as np

from loraplex.adapters_registry.safetensors_guard import Header, TensorEntry

CHUNK_BYTES = 4 * 1024 * 1024

LARGEST = 65504
"""Float16's largest number, where the engine may compute in it; no trained weight comes near."""

LARGEST_BITS = {
    "F32": ("<u4", 0x7FFFFFFF, 0x477FE000),
    "F16": ("<u2", 0x7FFF, 0x7BFF),
    "BF16": ("<u2", 0x7FFF, 0x477F),
}
"""How a dtype is read as integers, all bits but the sign's, and LARGEST (or what is next below) as
such: infinities are above it, NaN still further. NumPy has no bfloat16 to compare in."""


def find_not_finite(path: Path, header: Header) -> list[str]:
    """The names of tensors that hold such a number, in the order of the file."""
    entries = sorted(header.tensors.values(), key=lambda entry: entry.start)
    with path.open("rb") as file:
        return [entry.name for entry in entries if not is_finite(file, entry)]


def is_finite(file: BinaryIO, entry: TensorEntry) -> bool:
    kind, all_but_sign, largest = LARGEST_BITS[entry.dtype]
    file.seek(entry.start)
    for start in range(entry.start, entry.end, CHUNK_BYTES):
        size = min(CHUNK_BYTES, entry.end - start)
        bits = np.frombuffer(file.read(size), dtype=np.dtype(kind))
        if np.any((bits & all_but_sign) > largest):
            return False
    return True
