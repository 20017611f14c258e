"""A recorded decode over static buffers gives what the same step gives at its own size."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.execution.cuda_graphs import DecodeGraphs, ForwardPass
from loraplex.engine.execution.cuda_inputs import StagingRing, StepInputs
from loraplex.engine.execution.cuda_shapes import GraphShapes
from tests.engine.execution.host_device import HostDevice
from tests.engine.execution.made_batches import (
    ADAPTER_PAGES,
    MAX_ROWS,
    ROWS,
    SEQUENCE_BLOCKS,
    MadeModel,
    Row,
)
from tests.engine.tiny import VOCABULARY, describe, make_model


class Recorded:
    """All graphs of a model, and the eager way beside them."""

    def __init__(self, made: MadeModel) -> None:
        device = HostDevice()
        made.take_adapters()
        self.made = made
        self.shapes = GraphShapes(MAX_ROWS, SEQUENCE_BLOCKS + 3, made.tile_rank)
        self.forward = ForwardPass(
            made.decoder, made.pool, device.device, self.shapes.rows[-1], made.tile_rank
        )
        self.staging = StagingRing(device)
        with torch.inference_mode():
            self.graphs = DecodeGraphs(
                device, self.forward, self.shapes, made.geometry.layers, VOCABULARY
            )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    model_dir: Path = make_model(tmp_path_factory.mktemp("model"), "llama")
    return Recorded(MadeModel(model_dir, describe(model_dir)))


@given(steps=st.lists(ROWS, min_size=1, max_size=3))
def test_a_graph_gives_the_logits_and_pages_of_the_exact_batch(
    recorded: Recorded, steps: list[list[Row]]
) -> None:
    made = recorded.made
    for rows in steps:
        batch = made.batch(rows)
        logits, pages = made.forward(batch)
        shape = recorded.shapes.fit(batch)
        if shape is None:  # more runs of one adapter than assembly, which sorts, would make
            assert batch.lora is not None
            continue
        made.pool.data.copy_(made.content)
        with torch.inference_mode():
            picks, found = recorded.graphs.run(shape, StepInputs.of(batch, []), recorded.staging)
        torch.testing.assert_close(found[: len(rows)], logits, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(made.pool.data, pages, atol=1e-5, rtol=1e-5)
        owned = ADAPTER_PAGES + len(rows) * SEQUENCE_BLOCKS
        assert torch.equal(made.pool.data[:ADAPTER_PAGES], made.content[:ADAPTER_PAGES])
        assert torch.equal(made.pool.data[owned:], made.content[owned:])
        best = found[: len(rows)].argmax(-1)
        assert torch.equal(picks[: len(rows)], torch.stack((best, torch.ones_like(best)), 1))


def test_a_token_the_step_before_has_put_out_is_taken_from_the_device(recorded: Recorded) -> None:
    made = recorded.made
    with torch.inference_mode():
        first = made.batch([Row(5, token_id, None) for token_id in (3, 7, 9)])
        shape = recorded.shapes.fit(first)
        assert shape is not None
        picks, _ = recorded.graphs.run(shape, StepInputs.of(first, []), recorded.staging)
        known = picks[:3, 0].tolist()
        assert len(set(known)) == 3
        made.pool.data.copy_(made.content)
        second = made.batch([Row(6, 0, None), Row(6, 11, None), Row(6, 0, None)])
        unknown = [(0, 2), (2, 0)]
        _, logits = recorded.graphs.run(shape, StepInputs.of(second, unknown), recorded.staging)
        wanted, _ = made.forward(
            made.batch([Row(6, known[2], None), Row(6, 11, None), Row(6, known[0], None)])
        )
        torch.testing.assert_close(logits[:3], wanted, atol=1e-4, rtol=1e-4)


def test_a_row_that_is_not_sampled_is_computed_all_the_same(recorded: Recorded) -> None:
    made = recorded.made
    batch = made.batch([Row(5, 3, 0), Row(6, 4, None), Row(7, 5, 1)])
    wanted, _ = made.forward(batch)
    object.__setattr__(batch, "sample_rows", torch.tensor([2]))
    shape = recorded.shapes.fit(batch)
    assert shape is not None
    made.pool.data.copy_(made.content)
    with torch.inference_mode():
        _, logits = recorded.graphs.run(shape, StepInputs.of(batch, []), recorded.staging)
    torch.testing.assert_close(logits[0], wanted[2], atol=1e-4, rtol=1e-4)


def test_one_graph_is_recorded_for_each_shape(recorded: Recorded) -> None:
    shapes = recorded.shapes.all()
    assert len(set(shapes)) == len(shapes)
    assert [shape.rows for shape in shapes] == sorted((s.rows for s in shapes), reverse=True)
