"""Streams float32 arrays into a safetensors file of bfloat16, a few rows in memory at a time."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loraplex.engine.importing.errors import CorruptModelSource

Float32Rows = npt.NDArray[np.float32]


class Bfloat16File:
    """A safetensors file whose tensors are known by shape before their values are.

    Tensors are written in the order of `shapes`, each as chunks of whole rows.
    """

    def __init__(self, path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.shapes = shapes
        self.total_bytes = sum(2 * math.prod(shape) for shape in shapes.values())
        self._file = path.open("wb")
        self._file.write(_header(shapes))

    def write(self, name: str, chunks: Iterator[Float32Rows]) -> Iterator[int]:
        """Append one tensor; yields the bytes of each chunk once it is written."""
        for chunk in chunks:
            if not np.isfinite(chunk).all():
                raise CorruptModelSource(
                    f"{name} holds a value that is not finite.", field=name, rule="finite values"
                )
            data = round_to_bfloat16(chunk)
            self._file.write(data.data)
            yield data.nbytes

    def close(self) -> None:
        self._file.close()


def round_to_bfloat16(values: Float32Rows) -> npt.NDArray[np.uint16]:
    """Round finite float32 to the nearest bfloat16, ties to even, as little-endian bit patterns."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    return (rounded >> np.uint32(16)).astype("<u2")


def _header(shapes: Mapping[str, tuple[int, ...]]) -> bytes:
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, shape in shapes.items():
        end = start + 2 * math.prod(shape)
        entries[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
        start = end
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header
