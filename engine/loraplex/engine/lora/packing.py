"""Reads an adapter's file into pages, each byte once, on the calling thread alone.

A load runs beside the steps and must not slow them: the file is read and hashed in pieces that fit
a core's cache, and a piece's tensors go to their places, B transposed, in one call that leaves the
interpreter to others. No operation here starts threads of its own.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from loraplex.engine.adapter_source import AdapterBytes, whole_file
from loraplex.engine.kernels.native.library import Library, library
from loraplex.engine.lora.dtypes import convert, dtype_of
from loraplex.engine.lora.extras_packing import ExtrasPacking
from loraplex.engine.lora.gains import BaseLinears
from loraplex.engine.lora.layout import AdapterLayout, Tile
from loraplex.engine.lora.reading import READ_BYTES, HashedReader, Words, WrongBytes
from loraplex.engine.protocol.adapter import AdapterSpec, TensorRef

_WORDS: Final = {4: torch.int32, 2: torch.int16}
_NUMPY_WORDS: Final = {4: np.int32, 2: np.int16}


@dataclass(frozen=True)
class AdapterFile:
    """A local safetensors file, and where its tensors go.

    `base` is what DoRA and biases are worked out against.
    """

    spec: AdapterSpec
    layout: AdapterLayout
    path: Path
    base: BaseLinears | None = None

    def pack(self, places: Sequence[Tensor], first_page: int = 0) -> None:
        """As `pack_from`, of the file at `path`. Raises FileNotFoundError."""
        with whole_file(self.path) as file:
            size = os.fstat(file.handle).st_size
            if size != self.spec.weights_bytes:
                raise WrongBytes(
                    f"The adapter's file has {size} bytes instead of {self.spec.weights_bytes}."
                )
            pack_from(file, self.spec, self.layout, places, first_page, self.base)


def pack_from(
    file: AdapterBytes,
    spec: AdapterSpec,
    layout: AdapterLayout,
    places: Sequence[Tensor],
    first_page: int = 0,
    base: BaseLinears | None = None,
) -> None:
    """Fill `places`, the adapter's pages from `first_page` on, each `[page_elements]`.

    The places lie in host memory and may have another dtype than the file. The file is hashed as
    it is read. Raises WrongBytes where it is not the one the spec speaks of, and what the file's
    `wait_for` raises: what has been written until then is worth nothing.
    """
    reader = HashedReader(file)
    packing = _Packing(reader, places, first_page)
    extras = ExtrasPacking(layout.extras, places, first_page, base)
    tiles = _by_tensor(layout.tiles, range(first_page, first_page + len(places)))
    for stretch in _stretches(tiles, extras.wanted):
        words = packing.pack(stretch)
        if stretch.wanted is not None:
            extras.take(stretch.wanted, words)
    if reader.finish(spec.weights_bytes) != spec.weights_digest:
        raise WrongBytes("The adapter's file has other bytes than were uploaded.")
    extras.pack()


@dataclass(slots=True)
class _Stretch:
    """Bytes of the file that are read together, and the tiles of the tensors they hold."""

    start: int
    end: int
    tiles: list[Tile] = field(default_factory=list)
    wanted: TensorRef | None = None
    """The one tensor, where the extras want it whole."""


def _by_tensor(tiles: Sequence[Tile], pages: range) -> dict[int, list[Tile]]:
    """The tiles of these pages, by where their tensor starts in the file."""
    found: dict[int, list[Tile]] = defaultdict(list)
    for tile in tiles:
        if tile.page in pages:
            found[tile.tensor.start].append(tile)
    return found


def _stretches(tiles: dict[int, list[Tile]], wanted: dict[int, TensorRef]) -> Iterator[_Stretch]:
    """The file from front to back: small tensors that lie side by side, large ones alone."""
    stretch: _Stretch | None = None
    for start in sorted(tiles.keys() | wanted.keys()):
        tensor = wanted.get(start)
        own = tiles.get(start, [])
        end = (tensor or own[0].tensor).end
        is_one_more = stretch is not None and tensor is None and stretch.wanted is None
        if stretch is None or not is_one_more or end - stretch.start > READ_BYTES:
            if stretch is not None:
                yield stretch
            stretch = _Stretch(start, end, wanted=tensor)
        stretch.end = max(stretch.end, end)
        stretch.tiles += own
    if stretch is not None:
        yield stretch


class _Packing:
    """One pass over one file."""

    def __init__(self, reader: HashedReader, places: Sequence[Tensor], first_page: int) -> None:
        self._reader = reader
        self._first_page = first_page
        self._dtype = places[0].dtype
        words = _WORDS[self._dtype.itemsize]
        self._places: list[Words] = [place.view(words).numpy() for place in places]
        self._addresses = [place.data_ptr() for place in places]
        self._scratch = np.empty(READ_BYTES, dtype=np.uint8)
        self._library = library()

    def pack(self, stretch: _Stretch) -> Words:
        """Read a stretch, and put its tiles in their places.

        Returns what was read: of one wanted tensor its words, in memory of their own.
        """
        strips, others = [], []
        for tile in stretch.tiles:
            dtype = dtype_of(tile.tensor)
            if self._library is not None and dtype is self._dtype:
                strips.append(self._strip(tile, stretch.start))
            else:
                others.append((tile, dtype))
        words, read = self._read(stretch)
        if strips and self._library is not None:
            self._pack_strips(self._library, read, strips)
        for tile, dtype in others:
            self._pack_alone(tile, read[tile.tensor.start - stretch.start :], dtype)
        return words

    def _read(self, stretch: _Stretch) -> tuple[Words, Words]:
        """What was read, and the same as bytes."""
        wanted, size = stretch.wanted, stretch.end - stretch.start
        if wanted is not None:
            words = np.empty(wanted.shape, _NUMPY_WORDS[dtype_of(wanted).itemsize])
            read = words.reshape(-1).view(np.uint8)
        else:
            if len(self._scratch) < size:
                self._scratch = np.empty(size, dtype=np.uint8)
            words = read = self._scratch[:size]
        self._reader.fill(words, stretch.start)
        return words, read

    def _strip(self, tile: Tile, read_from: int) -> tuple[int, int, int, int, int, int]:
        """As `Strip` in kernels/native/packing.cpp has it."""
        size = self._dtype.itemsize
        first = tile.start * (tile.width if tile.is_a else 1)
        row_step, column_step = (tile.width, 1) if tile.is_a else (1, tile.tensor.shape[1])
        source = tile.tensor.start - read_from + first * size
        target = self._addresses[tile.page - self._first_page] + tile.offset * size
        return source, tile.end - tile.start, tile.width, row_step, column_step, target

    def _pack_strips(
        self, native: Library, read: Words, strips: list[tuple[int, int, int, int, int, int]]
    ) -> None:
        table = np.array(strips, dtype=np.int64)
        native.pack(read.ctypes.data, table.ctypes.data, len(table), self._dtype.itemsize)

    def _pack_alone(self, tile: Tile, read: Words, dtype: torch.dtype) -> None:
        """Of another dtype than the pages, or where there is no compiler."""
        rows, columns = tile.tensor.shape
        size = rows * columns * dtype.itemsize
        words = read[:size].view(_NUMPY_WORDS[dtype.itemsize]).reshape(rows, columns)
        own = (words if tile.is_a else words.T)[tile.start : tile.end]
        place = self._place(tile)
        if dtype is self._dtype:
            np.copyto(place.reshape(own.shape), own)
            return
        stored = torch.from_numpy(np.ascontiguousarray(own).reshape(-1)).view(dtype)
        convert(stored, torch.from_numpy(place).view(self._dtype))

    def _place(self, tile: Tile) -> Words:
        elements = (tile.end - tile.start) * tile.width
        return self._places[tile.page - self._first_page][tile.offset : tile.offset + elements]
