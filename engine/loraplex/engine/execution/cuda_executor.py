"""Runs steps on CUDA: decode steps as recorded graphs, the others op by op.

`submit` returns while the device works. A token that the step before has yet to put out is taken
from where that puts it on the device, so no step waits for the host to read the one before.
"""

from typing import Final

import torch
from torch import Tensor

from loraplex.engine.execution.cuda_device import GraphDevice
from loraplex.engine.execution.cuda_graphs import DecodeGraphs, ForwardPass
from loraplex.engine.execution.cuda_inputs import (
    InputLayout,
    StagingRing,
    StepInputs,
    exact_shapes,
)
from loraplex.engine.execution.cuda_shapes import GraphShapes
from loraplex.engine.execution.cuda_steps import RunningStep, StepReader, takes_best
from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.memory.pool import PagePool
from loraplex.engine.models.decoder import Decoder
from loraplex.engine.scheduler.assembly import AssembledStep, assemble
from loraplex.engine.scheduler.plan import StepPlan

STEPS_AHEAD: Final = 1
"""Steps that may be submitted before the one before them has been read."""


class GraphExecutor:
    """Executor of a device that records; at most `STEPS_AHEAD` steps are unread at a submit.

    Construction records every graph, which takes some seconds.
    """

    def __init__(
        self,
        device: GraphDevice,
        model: Decoder,
        pool: PagePool,
        geometry: PageGeometry,
        tile_rank: int,
        *,
        max_sequences: int,
        max_tokens: int,
        vocabulary_size: int,
    ) -> None:
        self._pool = pool
        self._geometry = geometry
        self._tile_rank = tile_rank
        blocks = min(geometry.blocks_of(max_tokens), geometry.pages)
        self._shapes = GraphShapes(max_sequences, blocks, tile_rank)
        self._forward = ForwardPass(model, pool, device.device, self._shapes.rows[-1], tile_rank)
        self._staging = StagingRing(device)
        self._reader = StepReader(device)
        self._last: RunningStep | None = None
        with torch.inference_mode():
            self._graphs = DecodeGraphs(
                device, self._forward, self._shapes, geometry.layers, vocabulary_size
            )

    def submit(self, plan: StepPlan) -> RunningStep:
        with torch.inference_mode():
            self._pool.clear(plan.new_pages)
            step = assemble(plan.rows, self._geometry, self._tile_rank, torch.device("cpu"))
            inputs = StepInputs.of(step.batch, self._unknown(step))
            shape = self._shapes.fit(step.batch)
            if shape is None:
                picks, logits = self._run_eagerly(inputs, step)
            else:
                picks, logits = self._graphs.run(shape, inputs, self._staging)
            sampled = len(step.sampled)
            self._last = self._reader.begin(step, picks[:sampled], logits[:sampled])
            return self._last

    def _unknown(self, step: AssembledStep) -> list[tuple[int, int]]:
        """Rows and places of tokens that the step before will have put out.

        A token that only the host can sample is waited for.
        """
        unknown = []
        for row, request in step.unknown:
            assert self._last is not None, "who awaits a token was in the step before"
            if takes_best(request.sampling):
                unknown.append((row, self._last.places[request]))
            else:
                step.batch.token_ids[row] = self._last.token_id(request)
        return unknown

    def _run_eagerly(self, inputs: StepInputs, step: AssembledStep) -> tuple[Tensor, Tensor]:
        layout = InputLayout(exact_shapes(inputs))
        block = self._forward.empty_block(layout.size_bytes)
        self._staging.send(layout, inputs, block)
        lora = step.batch.lora
        if lora is None:
            return self._forward.run(layout.views(block), [])
        return self._forward.run(layout.views(block), lora.has_group, lora.extras)
