"""Reads an adapter's file into pages, each byte once, on the calling thread alone.

A load runs beside the steps and must not slow them: tensors are read from the file straight into
their place, B is transposed on the way, and no operation here starts threads of its own, keeps the
interpreter from others for long, or touches more memory than it writes.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from loraplex.engine.lora.dtypes import convert, dtype_of
from loraplex.engine.lora.extras_packing import ExtrasPacking
from loraplex.engine.lora.gains import BaseLinears
from loraplex.engine.lora.layout import AdapterLayout, Tile
from loraplex.engine.lora.reading import HashedReader, Words, WrongBytes
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
        """Fill `places`, the adapter's pages from `first_page` on, each `[page_elements]`.

        The places lie in host memory and may have another dtype than the file. The file is hashed
        as it is read. Raises WrongBytes where it is not the one the spec speaks of: what has been
        written until then is worth nothing.
        """
        handle = os.open(self.path, os.O_RDONLY)
        try:
            size = os.fstat(handle).st_size
            if size != self.spec.weights_bytes:
                raise WrongBytes(
                    f"The adapter's file has {size} bytes instead of {self.spec.weights_bytes}."
                )
            reader = HashedReader(handle)
            packing = _Packing(reader, places, first_page)
            extras = ExtrasPacking(self.layout.extras, places, first_page, self.base)
            tiles = _by_tensor(self.layout.tiles, range(first_page, first_page + len(places)))
            for start in sorted(tiles.keys() | extras.wanted.keys()):
                tensor = extras.wanted.get(start)
                if tensor is None:
                    packing.pack(tiles[start])
                else:
                    words = packing.read(tensor)
                    packing.pack_read(tiles.get(start, []), words)
                    extras.take(tensor, words)
            if reader.finish(size) != self.spec.weights_digest:
                raise WrongBytes("The adapter's file has other bytes than were uploaded.")
            extras.pack()
        finally:
            os.close(handle)


def _by_tensor(tiles: Sequence[Tile], pages: range) -> dict[int, list[Tile]]:
    """The tiles of these pages in the tensor's order, by where the tensor starts in the file."""
    found: dict[int, list[Tile]] = defaultdict(list)
    for tile in tiles:
        if tile.page in pages:
            found[tile.tensor.start].append(tile)
    return {start: sorted(own, key=attrgetter("start")) for start, own in found.items()}


class _Packing:
    """One pass over one file."""

    def __init__(self, reader: HashedReader, places: Sequence[Tensor], first_page: int) -> None:
        self._reader = reader
        self._first_page = first_page
        self._dtype = places[0].dtype
        words = _WORDS[self._dtype.itemsize]
        self._places: list[Words] = [place.view(words).numpy() for place in places]
        self._scratch = np.empty(0, dtype=np.uint8)

    def pack(self, tiles: list[Tile]) -> None:
        """All tiles of one tensor."""
        tensor = tiles[0].tensor
        dtype = dtype_of(tensor)
        if tiles[0].is_a:
            for tile in tiles:
                self._pack_a(tile, dtype)
            return
        out_features, rank = tensor.shape
        rows = self._scratch_words(out_features * rank, dtype)
        self._reader.fill(rows, tensor.start)
        transposed = rows.reshape(out_features, rank).T
        for tile in tiles:
            self._pack_rows(tile, transposed[tile.start : tile.end], dtype)

    def read(self, tensor: TensorRef) -> Words:
        """A whole tensor, in memory of its own."""
        words = np.empty(tensor.shape, _NUMPY_WORDS[dtype_of(tensor).itemsize])
        self._reader.fill(words, tensor.start)
        return words

    def pack_read(self, tiles: list[Tile], words: Words) -> None:
        """All tiles of a tensor that has been read."""
        for tile in tiles:
            rows = words if tile.is_a else words.T
            self._pack_rows(tile, rows[tile.start : tile.end], dtype_of(tile.tensor))

    def _pack_a(self, tile: Tile, dtype: torch.dtype) -> None:
        start = tile.tensor.start + tile.start * tile.width * dtype.itemsize
        place = self._place(tile)
        if dtype is self._dtype:
            self._reader.fill(place, start)
            return
        rows = self._scratch_words(place.size, dtype)
        self._reader.fill(rows, start)
        self._convert(rows, dtype, place)

    def _pack_rows(self, tile: Tile, rows: Words, dtype: torch.dtype) -> None:
        place = self._place(tile)
        if dtype is self._dtype:
            np.copyto(place.reshape(rows.shape), rows)
        else:
            self._convert(np.ascontiguousarray(rows).reshape(-1), dtype, place)

    def _place(self, tile: Tile) -> Words:
        elements = (tile.end - tile.start) * tile.width
        return self._places[tile.page - self._first_page][tile.offset : tile.offset + elements]

    def _convert(self, words: Words, dtype: torch.dtype, place: Words) -> None:
        stored = torch.from_numpy(words).view(dtype)
        convert(stored, torch.from_numpy(place).view(self._dtype))

    def _scratch_words(self, count: int, dtype: torch.dtype) -> Words:
        size = count * dtype.itemsize
        if len(self._scratch) < size:
            self._scratch = np.empty(size, dtype=np.uint8)
        return self._scratch[:size].view(_NUMPY_WORDS[dtype.itemsize])
