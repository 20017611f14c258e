"""Turns a plan's grants into the step's tensors: a few array operations, whatever the prompts."""

from dataclasses import dataclass
from itertools import compress, pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loraplex.engine.lora.segments import Segment, lora_batch
from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.models.batch import Batch
from loraplex.engine.request import Request
from loraplex.engine.scheduler.rows import NO_ADAPTER, Integers, RunningRows


@dataclass(frozen=True)
class AssembledStep:
    """`rows`, `tokens` and `requests` in the order of the batch's sequences.

    Those that `is_sampled` get a token: `sampled`, in the order of the batch's sample_rows.
    `unknown` are rows of the batch whose token a step in flight is still sampling: whoever runs
    the step puts it there. Empty on a device that does not run ahead.
    """

    batch: Batch
    rows: Integers
    tokens: Integers
    requests: list[Request]
    is_sampled: npt.NDArray[np.bool_]
    sampled: list[Request]
    unknown: list[tuple[int, Request]]


def assemble(
    rows: RunningRows, geometry: PageGeometry, tile_rank: int, device: torch.device
) -> AssembledStep:
    """The step that `rows.granted` asks for; rows of one adapter lie together, the base's first."""
    order = np.flatnonzero(rows.granted)
    order = order[rows.adapter[order].argsort(kind="stable")]
    tokens, computed = rows.granted[order], rows.computed[order]
    contexts = computed + tokens
    is_sampled = contexts == rows.wanted[order]
    starts = np.zeros(len(order) + 1, dtype=np.int64)
    tokens.cumsum(out=starts[1:])
    sequence_of = np.repeat(np.arange(len(order)), tokens)
    positions = np.arange(starts[-1]) - (starts[:-1] - computed)[sequence_of]
    tables = rows.pages[order, : rows.blocks[order].max()]
    requests = rows.held_by(order)
    segments = _segments(rows.adapter[order], starts, requests)
    sample_rows = (starts[1:] - 1)[is_sampled]

    def tensor(array: npt.NDArray[np.generic], dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.from_numpy(array).to(device=device, dtype=dtype)

    batch = Batch(
        token_ids=tensor(_token_ids(rows, order, starts)),
        positions=tensor(positions),
        prompt_tokens=tensor(rows.prompt[order[sequence_of]]),
        slots=tensor(_slots(tables, sequence_of, positions, geometry)),
        block_tables=tensor(tables, torch.int32),
        query_starts=tensor(starts, torch.int32),
        context_tokens=tensor(contexts, torch.int32),
        sample_rows=tensor(sample_rows),
        lora=lora_batch(segments, tile_rank, device, sample_rows=sample_rows),
    )
    sampled = requests if is_sampled.all() else list(compress(requests, is_sampled.tolist()))
    awaits = (rows.in_flight[order] > 0) & (computed >= rows.known[order])
    unknown = [(int(starts[place]), requests[place]) for place in np.flatnonzero(awaits)]
    return AssembledStep(batch, order, tokens, requests, is_sampled, sampled, unknown)


def _segments(adapters: Integers, starts: Integers, requests: list[Request]) -> list[Segment]:
    """`adapters` `[sequences]` are numbers in ascending order."""
    if adapters[-1] == NO_ADAPTER:
        return []
    edges = (np.flatnonzero(adapters[1:] != adapters[:-1]) + 1).tolist()
    first_rows = starts.tolist()
    segments = []
    for first, end in pairwise([0, *edges, len(requests)]):
        adapter = requests[first].adapter
        if adapter is not None:
            segments.append(Segment(first_rows[first], first_rows[end], adapter.tables))
    return segments


def _token_ids(rows: RunningRows, order: Integers, starts: Integers) -> Integers:
    """`[rows of the batch]`. Most sequences have one, for their newest token."""
    token_ids = np.empty(starts[-1], dtype=np.int64)
    token_ids[starts[:-1]] = rows.last_token[order]
    tokens, computed = rows.granted[order], rows.computed[order]
    are_chunks = (tokens > 1) | (computed < rows.known[order] - 1)
    for place in np.flatnonzero(are_chunks).tolist():
        request, first = rows.requests[order[place]], computed[place]
        assert request is not None, "it runs"
        chunk = request.token_ids[first : first + tokens[place]]
        token_ids[starts[place] : starts[place] + len(chunk)] = chunk
    return token_ids


def _slots(
    tables: npt.NDArray[np.int32],
    sequence_of: Integers,
    positions: Integers,
    geometry: PageGeometry,
) -> Integers:
    block, place = np.divmod(positions, geometry.block_tokens)
    return tables[sequence_of, block].astype(np.int64) * geometry.page_rows + place
