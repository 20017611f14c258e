"""A step's rows by adapter, and long runs of one adapter cut for devices that want it."""

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.lora.layout import AdapterTables
from loraplex.engine.lora.segments import SEGMENT_ROWS, Segment, lora_batch

MODULES = 7


def adapter(rank: int, tiles: int) -> AdapterTables:
    offsets = torch.arange(MODULES * tiles).view(MODULES, tiles)
    return AdapterTables(
        offsets, offsets + 1000, torch.full((MODULES,), rank, dtype=torch.int32), torch.ones(7)
    )


RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 300)), min_size=1, max_size=8)
"""(base rows, rows of the next adapter)"""


@given(runs=RUNS, limit=st.sampled_from([1, 16, 64]))
def test_cut_segments_are_the_same_rows_in_order(runs: list[tuple[int, int]], limit: int) -> None:
    whole: list[Segment] = []
    row = 0
    for base_rows, rows in runs:
        start = row + base_rows
        row = start + rows
        whole.append(Segment(start, row, adapter(len(whole) + 1, 1)))
    batch = lora_batch(whole, 16, torch.device("cpu"), limit)
    assert batch is not None
    cut = batch.segments.tolist()
    assert all(0 < end - start <= limit for start, end, _ in cut)
    assert all(before[1] <= after[0] for before, after in pairwise(cut))
    assert len(cut) == sum(-(-rows // limit) for _, rows in runs)
    owner = {row: number for start, end, number in cut for row in range(start, end)}
    assert owner == {row: number for number, s in enumerate(whole) for row in range(s.start, s.end)}


def test_a_cpu_takes_segments_whole_and_a_gpu_takes_them_in_pieces() -> None:
    segments = [Segment(3, 200, adapter(4, 1)), Segment(200, 201, adapter(24, 2))]
    batch = lora_batch(segments, 16, torch.device("cpu"))
    assert batch is not None
    assert batch.segments.tolist() == [[3, 200, 0], [200, 201, 1]]
    assert batch.a_offsets[0, :, 1].tolist() == [-1] * MODULES, "an absent tile"
    assert SEGMENT_ROWS["cuda"] == 64
    assert lora_batch([], 16, torch.device("cpu")) is None
