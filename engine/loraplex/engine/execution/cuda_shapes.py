"""Which graph a step fits: decode steps by rows, adapters and rank tiles, each rounded up."""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from loraplex.engine.kernels.triton.tiles import MANY_ROWS
from loraplex.engine.models.batch import Batch

_ADAPTERS: Final = (8, 64, 512)
_RANKS: Final = (16, 128)
"""Work follows true ranks and segments; a larger bucket costs programs that end at once."""


@dataclass(frozen=True, order=True)
class LoraShape:
    """Adapters that a graph's tables have room for, and tiles of each module."""

    adapters: int
    tiles: int


@dataclass(frozen=True)
class GraphShape:
    """`rows` single tokens of as many sequences; `lora` is None where none has an adapter."""

    rows: int
    lora: LoraShape | None

    @property
    def segments(self) -> int:
        """Room for one of each adapter, and for cuts of those that are long."""
        return 0 if self.lora is None else self.lora.adapters + self.rows // MANY_ROWS


class GraphShapes:
    """The shapes that are recorded for at most `max_rows` sequences of `max_blocks` blocks."""

    def __init__(self, max_rows: int, max_blocks: int, tile_rank: int) -> None:
        self.rows = _row_buckets(max_rows)
        self.max_blocks = max_blocks
        self._tiles = sorted({-(-rank // tile_rank) for rank in _RANKS})

    def all(self) -> list[GraphShape]:
        """The largest first, so that the smaller ones find its memory."""
        shapes = []
        for rows in reversed(self.rows):
            for lora in reversed(self._lora_shapes(rows)):
                shapes.append(GraphShape(rows, lora))
            shapes.append(GraphShape(rows, None))
        return shapes

    def fit(self, batch: Batch) -> GraphShape | None:
        """The smallest shape that holds a step.

        None where it is no decode or too large, or has adapters that are more than pairs.
        """
        rows, sequences = len(batch.token_ids), len(batch.context_tokens)
        if (
            rows != sequences
            or rows > self.rows[-1]
            or self.max_blocks < batch.block_tables.shape[1]
        ):
            return None
        rows = self.rows[bisect_left(self.rows, rows)]
        if batch.lora is None:
            return GraphShape(rows, None)
        if batch.lora.extras:
            return None
        adapters, _, tiles = batch.lora.a_offsets.shape
        for lora in self._lora_shapes(rows):
            room = min(lora.adapters - adapters, lora.adapters - len(batch.lora.segments))
            if room >= 0 and lora.tiles >= tiles:
                return GraphShape(rows, lora)
        return None

    def _lora_shapes(self, rows: int) -> list[LoraShape]:
        adapters = {min(rows, count) for count in (*_ADAPTERS, rows)}
        return sorted(LoraShape(count, tiles) for count in adapters for tiles in self._tiles)


def _row_buckets(max_rows: int) -> list[int]:
    """1, 2, 4, then ever wider steps; the last is the first to hold `max_rows`."""
    buckets = [1, 2, 4, 8]
    while buckets[-1] < max_rows:
        buckets.append(buckets[-1] + (8 if buckets[-1] < 64 else 16 if buckets[-1] < 256 else 32))
    return buckets[: bisect_left(buckets, max_rows) + 1]
