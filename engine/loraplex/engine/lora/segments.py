"""A step's rows by adapter: derived from the residency table anew at every step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loraplex.engine.kernels.triton.tiles import MANY_ROWS
from loraplex.engine.lora.extras import AdapterExtras
from loraplex.engine.lora.layout import AdapterTables
from loraplex.engine.lora.modules import GROUPS, LINEARS

SEGMENT_ROWS: Final = {"cuda": MANY_ROWS}
"""The most rows of a segment by type of device; a device that is not named takes any number."""


@dataclass(frozen=True)
class Segment:
    """Rows `start` to `end` of the step use one adapter."""

    start: int
    end: int
    adapter: AdapterTables


@dataclass(frozen=True)
class ExtraRows:
    """Rows `start` to `end` of the step, of which the sampled ones are `first` to `last` of all."""

    start: int
    end: int
    first: int
    last: int
    extras: AdapterExtras


@dataclass(frozen=True)
class LoraBatch:
    """What the sgmv ops read, for all modules; the adapters are those of this step.

    segments   [segments, 3]                 int32 (first row, end row, adapter)
    a_offsets  [adapters, modules, tiles]    int64
    b_offsets  [adapters, modules, tiles]    int64
    ranks      [adapters, modules]           int32
    scales     [adapters, modules]           float32
    has_group  by layer * 4 + group: whether any adapter of the step adapts one of its linears
    extras     the adapters that are more than pairs of linears, and their rows
    """

    segments: Tensor
    a_offsets: Tensor
    b_offsets: Tensor
    ranks: Tensor
    scales: Tensor
    has_group: list[bool]
    tile_rank: int
    extras: tuple[ExtraRows, ...] = ()


def lora_batch(
    segments: Sequence[Segment],
    tile_rank: int,
    device: torch.device,
    segment_rows: int | None = None,
    sample_rows: npt.NDArray[np.int64] | None = None,
) -> LoraBatch | None:
    """Join the tables of the adapters in use; None where no row has an adapter.

    Segments are cut to at most `segment_rows`, by default what suits the device, so that a long
    one is shared by many processors. The work is that of requests and cuts, never of rows.
    `sample_rows` ascend.
    """
    if not segments:
        return None
    numbers = {id(segment.adapter): segment.adapter for segment in segments}
    adapters = list(numbers.values())
    places = {key: place for place, key in enumerate(numbers)}
    limit = segment_rows or SEGMENT_ROWS.get(device.type, segments[-1].end)
    rows = [
        (start, min(start + limit, segment.end), places[id(segment.adapter)])
        for segment in segments
        for start in range(segment.start, segment.end, limit)
    ]
    ranks = torch.stack([adapter.ranks for adapter in adapters])
    return LoraBatch(
        segments=torch.tensor(rows, dtype=torch.int32).to(device),
        a_offsets=_stacked([adapter.a_offsets for adapter in adapters]).to(device),
        b_offsets=_stacked([adapter.b_offsets for adapter in adapters]).to(device),
        ranks=ranks.to(device),
        scales=torch.stack([adapter.scales for adapter in adapters]).to(device),
        has_group=_has_group(ranks),
        tile_rank=tile_rank,
        extras=_extra_rows(segments, sample_rows),
    )


def _extra_rows(
    segments: Sequence[Segment], sample_rows: npt.NDArray[np.int64] | None
) -> tuple[ExtraRows, ...]:
    found = []
    for segment in segments:
        extras = segment.adapter.extras
        if extras is None:
            continue
        borders = (
            (0, 0)
            if sample_rows is None
            else np.searchsorted(sample_rows, (segment.start, segment.end))
        )
        found.append(
            ExtraRows(segment.start, segment.end, int(borders[0]), int(borders[1]), extras)
        )
    return tuple(found)


def _stacked(offsets: list[Tensor]) -> Tensor:
    """`[adapters, modules, tiles]`, an adapter of fewer tiles filled up with absent ones."""
    tiles = max(table.shape[1] for table in offsets)
    if all(table.shape[1] == tiles for table in offsets):
        return torch.stack(offsets)
    stacked = torch.full((len(offsets), offsets[0].shape[0], tiles), -1, dtype=torch.int64)
    for place, table in enumerate(offsets):
        stacked[place, :, : table.shape[1]] = table
    return stacked


def _has_group(ranks: Tensor) -> list[bool]:
    """In NumPy, whose calls on so little data take a tenth of torch's time."""
    is_adapted = (ranks.numpy() > 0).any(axis=0).reshape(-1, len(LINEARS))
    starts = [group.start for group in GROUPS]
    present: list[bool] = np.logical_or.reduceat(is_adapted, starts, axis=1).ravel().tolist()
    return present
