"""Reads a GGUF file: its metadata, and its tensors as rows of quantised bytes.

The `gguf` package dequantises; its own reader builds a NumPy view per vocabulary entry and takes
many seconds over what this one does in a moment.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from loraplex.engine.importing.errors import CorruptModelSource

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
DEFAULT_ALIGNMENT_BYTES: Final = 32

_STRING: Final = 8
_ARRAY: Final = 9
_SCALARS: Final[dict[int, struct.Struct]] = {
    type_code: struct.Struct("<" + letter)
    for type_code, letter in {
        0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
    }.items()
}  # fmt: skip


@dataclass(frozen=True)
class GgufTensor:
    """One tensor: `rows` is `[rows, bytes of a row]`, uint8, a view into the mapped file."""

    name: str
    type_code: int
    shape: tuple[int, ...]
    """Logical shape, outermost dimension first."""
    rows: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class GgufFile:
    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]


def read_gguf(path: Path) -> GgufFile:
    """Read the metadata and map the tensors of a little-endian GGUF file.

    Raises CorruptModelSource where the file breaks the format or is cut short.
    """
    try:
        return _read(np.memmap(path, dtype=np.uint8, mode="r"))
    except (struct.error, IndexError, UnicodeDecodeError, KeyError, ValueError) as error:
        raise CorruptModelSource(
            f"{path.name} is not a whole GGUF file: {error}",
            field=path.name,
            rule="a complete GGUF file",
        ) from error


def _read(mapped: npt.NDArray[np.uint8]) -> GgufFile:
    cursor = _Cursor(mapped.data)
    if bytes(cursor.take(4)) != MAGIC:
        _broken("it does not begin with GGUF")
    version = cursor.scalar(4)
    if version not in VERSIONS:
        _broken(f"version {version} is not one of {VERSIONS}")
    tensor_count, metadata_count = cursor.scalar(10), cursor.scalar(10)
    metadata = {}
    for _ in range(metadata_count):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.scalar(4))
    infos = [_read_info(cursor) for _ in range(tensor_count)]
    alignment = int(metadata.get("general.alignment", DEFAULT_ALIGNMENT_BYTES))
    data_start = math.ceil(cursor.offset / alignment) * alignment
    tensors = {
        name: _map_tensor(mapped, data_start + offset, name, type_code, shape)
        for name, shape, type_code, offset in infos
    }
    return GgufFile(metadata, tensors)


def _read_info(cursor: "_Cursor") -> tuple[str, tuple[int, ...], int, int]:
    name = cursor.text()
    dimensions = [cursor.scalar(10) for _ in range(cursor.scalar(4))]
    return name, tuple(reversed(dimensions)), cursor.scalar(4), cursor.scalar(10)


def _map_tensor(
    mapped: npt.NDArray[np.uint8],
    start: int,
    name: str,
    type_code: int,
    shape: tuple[int, ...],
) -> GgufTensor:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    block_elements, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(type_code)]
    columns, rows = shape[-1], math.prod(shape[:-1])
    if columns % block_elements:
        _broken(f"a row of {name} is no whole number of blocks")
    row_bytes = columns // block_elements * block_bytes
    end = start + rows * row_bytes
    if end > len(mapped):
        _broken(f"{name} ends at byte {end} of {len(mapped)}")
    return GgufTensor(name, type_code, shape, mapped[start:end].reshape(rows, row_bytes))


class _Cursor:
    """Walks the metadata, value by value."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.offset = 0

    def take(self, length_bytes: int) -> memoryview:
        end = self.offset + length_bytes
        if end > len(self.data):
            _broken(f"it is cut short at byte {len(self.data)}")
        taken = self.data[self.offset : end]
        self.offset = end
        return taken

    def scalar(self, type_code: int) -> Any:
        layout = _SCALARS[type_code]
        return layout.unpack(self.take(layout.size))[0]

    def text(self) -> str:
        return bytes(self.take(self.scalar(10))).decode()

    def value(self, type_code: int) -> Any:
        if type_code == _STRING:
            return self.text()
        if type_code != _ARRAY:
            return self.scalar(type_code)
        item_code, length = self.scalar(4), self.scalar(10)
        if item_code == _STRING:
            return [self.text() for _ in range(length)]
        read: Callable[[int], Any] = self.value if item_code == _ARRAY else self.scalar
        return [read(item_code) for _ in range(length)]


def _broken(what: str) -> NoReturn:
    raise ValueError(what)
