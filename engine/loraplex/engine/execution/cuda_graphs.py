"""Decode steps as recorded graphs over static buffers, one graph for each shape."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from loraplex.engine.execution.cuda_device import GraphDevice
from loraplex.engine.execution.cuda_inputs import (
    InputLayout,
    StagingRing,
    StepInputs,
    decode_inputs,
    graph_shapes,
)
from loraplex.engine.execution.cuda_shapes import GraphShape, GraphShapes
from loraplex.engine.execution.cuda_steps import pick
from loraplex.engine.lora.modules import GROUPS, LINEARS
from loraplex.engine.lora.segments import ExtraRows
from loraplex.engine.memory.pool import PagePool
from loraplex.engine.models.batch import Batch
from loraplex.engine.models.decoder import Decoder

log = logging.getLogger(__name__)


class ForwardPass:
    """A forward pass whose best tokens stay where the next one finds them."""

    def __init__(
        self, model: Decoder, pool: PagePool, device: torch.device, max_rows: int, tile_rank: int
    ) -> None:
        self._model = model
        self._pool = pool
        self._device = device
        self._tile_rank = tile_rank
        self._last_token_ids = torch.zeros(max_rows, dtype=torch.int64, device=device)

    def empty_block(self, size_bytes: int) -> Tensor:
        return torch.empty(size_bytes, dtype=torch.uint8, device=self._device)

    def run(
        self, inputs: StepInputs, has_group: list[bool], extras: tuple[ExtraRows, ...] = ()
    ) -> tuple[Tensor, Tensor]:
        """Picks `[sampled, 2]` and logits `[sampled, vocabulary]`."""
        batch = self._with_tokens(inputs, has_group, extras)
        logits = self._model.forward(batch, self._pool.data)
        picks = pick(logits)
        self._last_token_ids[: len(picks)] = picks[:, 0]
        return picks, logits

    def _with_tokens(
        self, inputs: StepInputs, has_group: list[bool], extras: tuple[ExtraRows, ...]
    ) -> Batch:
        batch = inputs.batch(self._tile_rank, has_group, extras)
        sources = inputs.tensors["sources"]
        earlier = self._last_token_ids[sources.clamp(min=0)]
        return replace(batch, token_ids=torch.where(sources < 0, batch.token_ids, earlier))


class DecodeGraphs:
    """One graph for each shape, all over the same static buffers.

    Every group of linears is recorded as present: whether one is, a kernel reads from the ranks.
    """

    def __init__(
        self,
        device: GraphDevice,
        forward: ForwardPass,
        shapes: GraphShapes,
        layers: int,
        vocabulary_size: int,
    ) -> None:
        self._forward = forward
        self._modules = layers * len(LINEARS)
        self._has_group = [True] * (layers * len(GROUPS))
        max_rows = shapes.rows[-1]
        # Tables are copied as wide as a step needs, and read at the width recorded.
        self._tables = torch.zeros(
            max_rows, shapes.max_blocks, dtype=torch.int32, device=device.device
        )
        sizes = [self._layout(shape, shapes.max_blocks).size_bytes for shape in shapes.all()]
        self._block = forward.empty_block(max(sizes))
        self._picks = torch.zeros(max_rows, 2, dtype=torch.int64, device=device.device)
        self._logits = torch.zeros(
            max_rows, vocabulary_size, dtype=torch.float32, device=device.device
        )
        begun_at = time.monotonic()
        self._replays = {shape: self._record(device, shape) for shape in shapes.all()}
        log.info(
            "recorded %d graphs in %.1f seconds", len(self._replays), time.monotonic() - begun_at
        )

    def run(
        self, shape: GraphShape, inputs: StepInputs, staging: StagingRing
    ) -> tuple[Tensor, Tensor]:
        """As `ForwardPass.run`, for at least the rows that were sampled."""
        blocks = inputs.tensors["block_tables"].shape[1]
        layout = self._layout(shape, blocks)
        staging.send(layout, decode_inputs(inputs, shape.rows), self._block)
        tables = layout.views(self._block).tensors["block_tables"]
        self._tables[: shape.rows, :blocks] = tables
        self._replays[shape]()
        return self._picks, self._logits

    def _layout(self, shape: GraphShape, blocks: int) -> InputLayout:
        return InputLayout(graph_shapes(shape, self._modules, blocks))

    def _record(self, device: GraphDevice, shape: GraphShape) -> Callable[[], None]:
        layout = self._layout(shape, 0)
        layout.write_neutral(self._block)
        inputs = layout.views(self._block)
        inputs.tensors["block_tables"] = self._tables[: shape.rows]

        def run() -> None:
            picks, logits = self._forward.run(inputs, self._has_group)
            self._picks[: shape.rows] = picks
            self._logits[: shape.rows] = logits

        return device.record(run)
