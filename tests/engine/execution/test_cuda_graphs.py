"""A recorded decode over static buffers gives what the same step gives at its own size."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from loraplex.engine.execution.cuda_graphs import DecodeGraphs, ForwardPass
from loraplex.engine.execution.cuda_inputs import StagingRing, StepInputs
from loraplex.engine.execution.cuda_shapes import GraphShapes
from loraplex.engine.kernels.ops import Backend
from loraplex.engine.memory.pool import PageId
from loraplex.engine.models.batch import Batch
from tests.engine.execution.host_device import HostDevice
from tests.engine.made_model import MadeModel, Row, Sizes

SIZES = Sizes()
ADAPTER_PAGES = 60
SEQUENCE_BLOCKS = 4
MAX_ROWS = 12
ADAPTERS = ((1, 1), (3, 2), (8, 3), (24, 4))
"""Rank, and which of the linears have it."""

ROWS = st.lists(
    st.builds(
        Row,
        st.integers(1, SIZES.block_tokens * SEQUENCE_BLOCKS),
        st.integers(0, SIZES.vocabulary - 1),
        st.none() | st.integers(0, len(ADAPTERS) - 1),
    ),
    min_size=1,
    max_size=MAX_ROWS,
)


class Recorded:
    """All graphs of a model, and the exact way beside them."""

    def __init__(self) -> None:
        pages = ADAPTER_PAGES + MAX_ROWS * SEQUENCE_BLOCKS + 1
        self.made = made = MadeModel(SIZES, pages, backend=Backend.REFERENCE)
        for rank, every in ADAPTERS:
            made.add_adapter(rank, every)
        assert made.pool.free_pages >= MAX_ROWS * SEQUENCE_BLOCKS
        generator = torch.Generator().manual_seed(0)
        self.content = torch.randn(made.pool.data.shape, generator=generator) * 0.3
        device = HostDevice()
        self.shapes = GraphShapes(MAX_ROWS, SEQUENCE_BLOCKS + 3, made.tile_rank)
        self.staging = StagingRing(device)
        forward = ForwardPass(
            made.decoder, made.pool, device.device, self.shapes.rows[-1], made.tile_rank
        )
        with torch.inference_mode():
            self.graphs = DecodeGraphs(
                device, forward, self.shapes, made.geometry.layers, SIZES.vocabulary
            )

    def batch(self, rows: list[Row]) -> Batch:
        pages = range(ADAPTER_PAGES, ADAPTER_PAGES + len(rows) * SEQUENCE_BLOCKS)
        return self.made.decode_batch(rows, [PageId(page) for page in pages])

    def exact(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of exactly this batch, and the pool after it."""
        pages = self.content.clone()
        with torch.inference_mode():
            return self.made.decoder.forward(batch, pages), pages

    def replay(
        self, batch: Batch, unknown: list[tuple[int, int]] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Picks and logits by the graph that fits."""
        shape = self.shapes.fit(batch)
        assert shape is not None
        self.made.pool.data.copy_(self.content)
        with torch.inference_mode():
            return self.graphs.run(shape, StepInputs.of(batch, unknown or []), self.staging)


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return Recorded()


@given(steps=st.lists(ROWS, min_size=1, max_size=3))
def test_a_graph_gives_the_logits_and_pages_of_the_exact_batch(
    recorded: Recorded, steps: list[list[Row]]
) -> None:
    pool, content = recorded.made.pool.data, recorded.content
    for rows in steps:
        batch = recorded.batch(rows)
        if recorded.shapes.fit(batch) is None:
            # More runs of one adapter than assembly, which sorts, would make.
            assert batch.lora is not None
            continue
        logits, pages = recorded.exact(batch)
        picks, found = recorded.replay(batch)
        torch.testing.assert_close(found[: len(rows)], logits, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(pool, pages, atol=1e-5, rtol=1e-5)
        owned = ADAPTER_PAGES + len(rows) * SEQUENCE_BLOCKS
        assert torch.equal(pool[:ADAPTER_PAGES], content[:ADAPTER_PAGES])
        assert torch.equal(pool[owned:], content[owned:])
        best = found[: len(rows)].argmax(-1)
        assert torch.equal(picks[: len(rows)], torch.stack((best, torch.ones_like(best)), 1))


def test_a_token_the_step_before_has_put_out_is_taken_from_the_device(recorded: Recorded) -> None:
    first = recorded.batch([Row(5, token_id, None) for token_id in (3, 7, 9)])
    known = recorded.replay(first)[0][:3, 0].tolist()
    assert known[0] != known[2]
    second = recorded.batch([Row(6, 0, None), Row(6, 11, None), Row(6, 0, None)])
    _, logits = recorded.replay(second, unknown=[(0, 2), (2, 0)])
    rows = [Row(6, known[2], None), Row(6, 11, None), Row(6, known[0], None)]
    wanted, _ = recorded.exact(recorded.batch(rows))
    torch.testing.assert_close(logits[:3], wanted, atol=1e-4, rtol=1e-4)


def test_a_row_that_is_not_sampled_is_computed_all_the_same(recorded: Recorded) -> None:
    batch = recorded.batch([Row(5, 3, 0), Row(6, 4, None), Row(7, 5, 1)])
    wanted, pages = recorded.exact(batch)
    _, logits = recorded.replay(replace(batch, sample_rows=torch.tensor([2])))
    torch.testing.assert_close(logits[0], wanted[2], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(recorded.made.pool.data, pages, atol=1e-5, rtol=1e-5)
