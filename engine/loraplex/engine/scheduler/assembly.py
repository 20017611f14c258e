"""Turns a plan's grants into the step's tensors: a few array operations, whatever the prompts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loraplex.engine.lora.segments import Segment, lora_batch
from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.models.batch import Batch
from loraplex.engine.request import Request

_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AssembledStep:
    """`requests` in the order of the batch's sequences; `sampled` in that of its sample_rows."""

    batch: Batch
    requests: list[Request]
    tokens: list[int]
    sampled: list[Request]


def assemble(
    grants: dict[Request, int], geometry: PageGeometry, tile_rank: int, device: torch.device
) -> AssembledStep:
    """Order requests so that the rows of one adapter lie together, base requests first."""
    order = _by_adapter(grants)
    tokens = [grants[request] for request in order]
    counts = np.array(tokens, dtype=np.int64)
    starts = np.concatenate(([0], counts.cumsum()))
    computed = np.array([request.computed_tokens for request in order], dtype=np.int64)
    sequence_of = np.repeat(np.arange(len(order)), counts)
    positions = np.arange(starts[-1]) - (starts[:-1] - computed)[sequence_of]
    tables = _block_tables(order)
    sampled = [r for r in order if r.computed_tokens + grants[r] == r.wanted_tokens]
    sample_rows = (starts[1:] - 1)[[grants[r] == r.missing_tokens for r in order]]
    prompts = np.array([request.prompt_tokens for request in order], dtype=np.int64)

    def tensor(array: npt.NDArray[np.generic], dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.from_numpy(array).to(device=device, dtype=dtype)

    batch = Batch(
        token_ids=tensor(_token_ids(order, tokens)),
        positions=tensor(positions),
        prompt_tokens=tensor(prompts[sequence_of]),
        slots=tensor(_slots(tables, sequence_of, positions, geometry)),
        block_tables=tensor(tables, torch.int32),
        query_starts=tensor(starts, torch.int32),
        context_tokens=tensor(computed + counts, torch.int32),
        sample_rows=tensor(sample_rows),
        lora=lora_batch(_segments(order, starts), tile_rank, device),
    )
    return AssembledStep(batch, order, tokens, sampled)


def _by_adapter(grants: dict[Request, int]) -> list[Request]:
    numbers: dict[int, int] = {}
    for request in grants:
        if request.adapter is not None:
            numbers.setdefault(id(request.adapter), len(numbers))
    return sorted(grants, key=lambda r: -1 if r.adapter is None else numbers[id(r.adapter)])


def _token_ids(order: Sequence[Request], tokens: Sequence[int]) -> _Integers:
    return np.concatenate(
        [
            request.token_ids[request.computed_tokens : request.computed_tokens + count]
            for request, count in zip(order, tokens, strict=True)
        ]
    )


def _block_tables(order: Sequence[Request]) -> npt.NDArray[np.int32]:
    """`[sequences, blocks]`; past a sequence's pages stands its own first page."""
    longest = max(len(request.pages) for request in order)
    tables = np.empty((len(order), longest), dtype=np.int32)
    for row, request in zip(tables, order, strict=True):
        count = len(request.pages)
        row[:count] = request.block_table[:count]
        row[count:] = row[0]
    return tables


def _slots(
    tables: npt.NDArray[np.int32],
    sequence_of: _Integers,
    positions: _Integers,
    geometry: PageGeometry,
) -> _Integers:
    block, place = np.divmod(positions, geometry.block_tokens)
    return tables[sequence_of, block].astype(np.int64) * geometry.page_rows + place


def _segments(order: Sequence[Request], starts: _Integers) -> list[Segment]:
    segments: list[Segment] = []
    for request, start, end in zip(order, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        if request.adapter is None:
            continue
        tables = request.adapter.tables
        if segments and segments[-1].adapter is tables:
            segments[-1] = Segment(segments[-1].start, end, tables)
        else:
            segments.append(Segment(start, end, tables))
    return segments
