"""Turns a plan's grants into the step's tensors: a few array operations, whatever the prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loraplex.engine.lora.segments import Segment, lora_batch
from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.memory.residency import ResidentAdapter
from loraplex.engine.models.batch import Batch
from loraplex.engine.request import Request

_Integers = npt.NDArray[np.int64]
_Group = tuple[int, int, ResidentAdapter]
"""Requests from one place in the order to another that use one adapter."""


@dataclass(frozen=True)
class AssembledStep:
    """`requests` in the order of the batch's sequences; `sampled` in that of its sample_rows.

    `unknown` are rows whose token a step in flight is still sampling: whoever runs the step puts
    it there. Empty on a device that does not run ahead.
    """

    batch: Batch
    requests: list[Request]
    tokens: list[int]
    sampled: list[Request]
    unknown: list[tuple[int, Request]]


def assemble(
    grants: dict[Request, int], geometry: PageGeometry, tile_rank: int, device: torch.device
) -> AssembledStep:
    """Order requests so that the rows of one adapter lie together, base requests first."""
    order, groups = _by_adapter(grants)
    tokens = [grants[request] for request in order]
    counts = np.array(tokens, dtype=np.int64)
    starts = np.zeros(len(order) + 1, dtype=np.int64)
    counts.cumsum(out=starts[1:])
    computed = np.array([request.computed_tokens for request in order], dtype=np.int64)
    contexts = computed + counts
    samples = contexts == np.array([request.wanted_tokens for request in order])
    chunks = np.flatnonzero((counts > 1) | ~samples).tolist()
    sequence_of = np.repeat(np.arange(len(order)), counts)
    positions = np.arange(starts[-1]) - (starts[:-1] - computed)[sequence_of]
    tables = _block_tables(order)
    segments = [
        Segment(int(starts[first]), int(starts[end]), adapter.tables)
        for first, end, adapter in groups
    ]
    prompts = np.array([request.prompt_tokens for request in order], dtype=np.int64)

    def tensor(array: npt.NDArray[np.generic], dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.from_numpy(array).to(device=device, dtype=dtype)

    batch = Batch(
        token_ids=tensor(_token_ids(order, tokens, starts, chunks)),
        positions=tensor(positions),
        prompt_tokens=tensor(prompts[sequence_of]),
        slots=tensor(_slots(tables, sequence_of, positions, geometry)),
        block_tables=tensor(tables, torch.int32),
        query_starts=tensor(starts, torch.int32),
        context_tokens=tensor(contexts, torch.int32),
        sample_rows=tensor((starts[1:] - 1)[samples]),
        lora=lora_batch(segments, tile_rank, device),
    )
    sampled = list(compress(order, samples.tolist()))
    unknown = [
        (row, request)
        for row, request in zip(starts.tolist(), order, strict=False)
        if request.steps_in_flight and request.computed_tokens >= request.known_tokens
    ]
    return AssembledStep(batch, order, tokens, sampled, unknown)


def _by_adapter(grants: dict[Request, int]) -> tuple[list[Request], list[_Group]]:
    order: list[Request] = []
    adapted: dict[ResidentAdapter, list[Request]] = {}
    for request in grants:
        if request.adapter is None:
            order.append(request)
        else:
            adapted.setdefault(request.adapter, []).append(request)
    groups = []
    for adapter, requests in adapted.items():
        start = len(order)
        order += requests
        groups.append((start, len(order), adapter))
    return order, groups


def _token_ids(
    order: Sequence[Request], tokens: Sequence[int], starts: _Integers, chunks: Sequence[int]
) -> _Integers:
    """`[rows]`. Most sequences have one row, for their newest token; `chunks` are the others."""
    token_ids = np.empty(starts[-1], dtype=np.int64)
    token_ids[starts[:-1]] = [request.last_token_id for request in order]
    for place in chunks:
        request, start = order[place], starts[place]
        computed, count = request.computed_tokens, tokens[place]
        token_ids[start : start + count] = request.token_ids[computed : computed + count]
    return token_ids


def _block_tables(order: Sequence[Request]) -> npt.NDArray[np.int32]:
    """`[sequences, blocks]`; past a sequence's pages stands its own first page."""
    longest = max([len(request.pages) for request in order])
    rows = [request.table_row for request in order]
    assert rows[0] is not None, "it runs"
    return rows[0].tables.gather([row.number for row in rows if row is not None], longest)


def _slots(
    tables: npt.NDArray[np.int32],
    sequence_of: _Integers,
    positions: _Integers,
    geometry: PageGeometry,
) -> _Integers:
    block, place = np.divmod(positions, geometry.block_tokens)
    return tables[sequence_of, block].astype(np.int64) * geometry.page_rows + place
