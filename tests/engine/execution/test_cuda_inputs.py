"""Inputs travel as one block; a host block is not written while it is being copied."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.execution.cuda_inputs import (
    InputLayout,
    StagingRing,
    StepInputs,
    decode_inputs,
    exact_shapes,
    graph_shapes,
)
from loraplex.engine.execution.cuda_shapes import GraphShape, LoraShape
from loraplex.engine.kernels.triton.tiles import MANY_ROWS
from loraplex.engine.lora.segments import LoraBatch
from loraplex.engine.models.batch import Batch
from tests.engine.execution.host_device import HostDevice, HostEvent

MODULES = 14


def batch(rows: int, blocks: int, runs: list[int]) -> Batch:
    """A decode batch of distinct numbers; `runs` are the rows of each adapter, from row 0."""
    lora = None
    if runs:
        ends = torch.tensor(runs).cumsum(0)
        segments = torch.stack((ends - torch.tensor(runs), ends, torch.arange(len(runs))), 1)
        lora = LoraBatch(
            segments=segments.to(torch.int32),
            a_offsets=torch.arange(len(runs) * MODULES).view(-1, MODULES, 1),
            b_offsets=torch.arange(len(runs) * MODULES).view(-1, MODULES, 1) + 1000,
            ranks=torch.full((len(runs), MODULES), 7, dtype=torch.int32),
            scales=torch.full((len(runs), MODULES), 0.5),
            has_group=[True] * 8,
            tile_rank=16,
        )
    return Batch(
        token_ids=torch.arange(rows) + 10,
        positions=torch.arange(rows) + 20,
        prompt_tokens=torch.arange(rows) + 30,
        slots=torch.arange(rows) + 40,
        block_tables=torch.arange(rows * blocks, dtype=torch.int32).view(rows, blocks),
        query_starts=torch.arange(rows + 1, dtype=torch.int32),
        context_tokens=torch.arange(rows, dtype=torch.int32) + 1,
        sample_rows=torch.arange(rows),
        lora=lora,
    )


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 4))
def test_an_exact_block_holds_the_inputs(rows: int, blocks: int, adapters: int) -> None:
    inputs = StepInputs.of(batch(rows, blocks, [1] * min(rows, adapters)), [])
    layout = InputLayout(exact_shapes(inputs))
    block = torch.full((layout.size_bytes,), 0x5A, dtype=torch.uint8)
    layout.write(block, inputs)
    found = layout.views(block).tensors
    assert found.keys() == inputs.tensors.keys()
    for name, tensor in inputs.tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 4))
def test_what_a_step_does_not_use_is_neutral(rows: int, blocks: int, adapters: int) -> None:
    adapters = min(rows, adapters)
    shape = GraphShape(16, LoraShape(8, 2) if adapters else None)
    inputs = decode_inputs(StepInputs.of(batch(rows, blocks, [1] * adapters), []), shape.rows)
    layout = InputLayout(graph_shapes(shape, MODULES, blocks))
    block = torch.full((layout.size_bytes,), 0x5A, dtype=torch.uint8)
    layout.write(block, inputs)
    found = layout.views(block).tensors
    assert (found["slots"][rows:] == -1).all()
    assert (found["sources"] == -1).all()
    assert (found["context_tokens"][rows:] == 0).all()
    assert found["query_starts"].tolist() == list(range(17))
    assert found["sample_rows"].max() < rows
    assert torch.equal(found["slots"][:rows], inputs.tensors["slots"])
    if adapters:
        segments = found["segments"]
        assert (segments[adapters:, 0] == segments[adapters:, 1]).all()
        assert (found["ranks"][adapters:] == 0).all()
        assert (found["a_offsets"][:, :, 1:] == -1).all()
        assert torch.equal(found["b_offsets"][:adapters, :, :1], inputs.tensors["b_offsets"])


def test_long_segments_are_cut() -> None:
    rows = 2 * MANY_ROWS + 6
    segments = StepInputs.of(batch(rows, 1, [MANY_ROWS + 1, 5]), []).tensors["segments"]
    assert segments.tolist() == [
        [0, MANY_ROWS, 0],
        [MANY_ROWS, MANY_ROWS + 1, 0],
        [MANY_ROWS + 1, MANY_ROWS + 6, 1],
    ]


def test_a_host_block_is_written_again_only_when_its_copy_has_ended() -> None:
    device = HostDevice()
    ring = StagingRing(device)
    inputs = StepInputs.of(batch(3, 2, []), [])
    layout = InputLayout(exact_shapes(inputs))
    target = torch.empty(layout.size_bytes, dtype=torch.uint8)
    pending: list[list[bool]] = []

    class Watched(InputLayout):
        def write(self, block: torch.Tensor, inputs: StepInputs) -> None:
            pending.append([event.is_pending for event in device.events])
            super().write(block, inputs)

    watched = Watched(exact_shapes(inputs))
    for _ in range(4):
        ring.send(watched, inputs, target)
    one, other = True, False
    assert pending == [[False, False], [one, other], [False, True], [True, False]]
    assert all(isinstance(event, HostEvent) for event in device.events)
    assert torch.equal(layout.views(target).tensors["slots"], inputs.tensors["slots"])
