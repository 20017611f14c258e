"""A step's inputs as one block of bytes: written in host memory, copied once, read as tensors."""

import math
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from loraplex.engine.execution.cuda_device import DeviceEvent, GraphDevice
from loraplex.engine.execution.cuda_shapes import GraphShape
from loraplex.engine.kernels.triton.tiles import MANY_ROWS
from loraplex.engine.lora.segments import ExtraRows, LoraBatch
from loraplex.engine.models.batch import Batch

_ALIGNMENT: Final = 256
"""Bytes: as torch aligns tensors of its own, so that kernels are compiled for aligned ones."""

_NEUTRAL: Final[dict[str, tuple[torch.dtype, int]]] = {
    "token_ids": (torch.int64, 0),
    "sources": (torch.int64, -1),
    "positions": (torch.int64, 0),
    "prompt_tokens": (torch.int64, 0),
    "slots": (torch.int64, -1),
    "query_starts": (torch.int32, 0),
    "context_tokens": (torch.int32, 0),
    "sample_rows": (torch.int64, 0),
    "segments": (torch.int32, 0),
    "a_offsets": (torch.int64, -1),
    "b_offsets": (torch.int64, -1),
    "ranks": (torch.int32, 0),
    "scales": (torch.float32, 0),
    "block_tables": (torch.int32, 0),
}
"""Each input's dtype, and what an unused place of it holds: a slot that is not written, a context
without tokens, a segment without rows, a module without ranks."""


@dataclass(frozen=True)
class StepInputs:
    """A step's tensors by name: those of Batch and LoraBatch.

    sources  [rows] int64: where the step before this one put the row's token, -1 where the row's
             token is in token_ids
    """

    tensors: dict[str, Tensor]

    @staticmethod
    def of(batch: Batch, unknown: list[tuple[int, int]]) -> "StepInputs":
        """`unknown` names rows and the places of their tokens."""
        sources = torch.full_like(batch.token_ids, -1)
        for row, place in unknown:
            sources[row] = place
        tensors = {
            "token_ids": batch.token_ids,
            "sources": sources,
            "positions": batch.positions,
            "prompt_tokens": batch.prompt_tokens,
            "slots": batch.slots,
            "query_starts": batch.query_starts,
            "context_tokens": batch.context_tokens,
            "sample_rows": batch.sample_rows,
            "block_tables": batch.block_tables,
        }
        if batch.lora is not None:
            tensors |= {
                "segments": _cut(batch.lora.segments),
                "a_offsets": batch.lora.a_offsets,
                "b_offsets": batch.lora.b_offsets,
                "ranks": batch.lora.ranks,
                "scales": batch.lora.scales,
            }
        return StepInputs(tensors)

    def batch(self, tile_rank: int, has_group: list[bool], extras: tuple[ExtraRows, ...]) -> Batch:
        named = self.tensors
        lora = None
        if "segments" in named:
            lora = LoraBatch(
                segments=named["segments"],
                a_offsets=named["a_offsets"],
                b_offsets=named["b_offsets"],
                ranks=named["ranks"],
                scales=named["scales"],
                has_group=has_group,
                tile_rank=tile_rank,
                extras=extras,
            )
        return Batch(
            token_ids=named["token_ids"],
            positions=named["positions"],
            prompt_tokens=named["prompt_tokens"],
            slots=named["slots"],
            block_tables=named["block_tables"],
            query_starts=named["query_starts"],
            context_tokens=named["context_tokens"],
            sample_rows=named["sample_rows"],
            lora=lora,
        )


def _cut(segments: Tensor) -> Tensor:
    """No segment longer than the kernels' largest, so that many processors share it."""
    if not bool((segments[:, 1] - segments[:, 0] > MANY_ROWS).any()):
        return segments
    rows = [
        (first, min(first + MANY_ROWS, end), adapter)
        for start, end, adapter in segments.tolist()
        for first in range(start, end, MANY_ROWS)
    ]
    return torch.tensor(rows, dtype=torch.int32)


Shapes = dict[str, tuple[int, ...]]


class InputLayout:
    """Where each input lies in the block; block tables last, since their width varies."""

    def __init__(self, shapes: Shapes) -> None:
        self._places: dict[str, tuple[int, int, tuple[int, ...]]] = {}
        start = 0
        for name in _NEUTRAL:
            if name not in shapes:
                continue
            dtype, _ = _NEUTRAL[name]
            end = start + math.prod(shapes[name]) * dtype.itemsize
            self._places[name] = (start, end, shapes[name])
            start = -(-end // _ALIGNMENT) * _ALIGNMENT
        self.size_bytes = start

    def views(self, block: Tensor) -> StepInputs:
        """The inputs in a uint8 block."""
        return StepInputs(
            {
                name: block[start:end].view(_NEUTRAL[name][0]).view(shape)
                for name, (start, end, shape) in self._places.items()
            }
        )

    def write_neutral(self, block: Tensor) -> None:
        for name, target in self.views(block).tensors.items():
            target.fill_(_NEUTRAL[name][1])

    def write(self, block: Tensor, inputs: StepInputs) -> None:
        """Put inputs into a block, and what is neutral where they leave places unused."""
        for name, target in self.views(block).tensors.items():
            source = inputs.tensors[name]
            if source.shape != target.shape:
                target.fill_(_NEUTRAL[name][1])
                target = target[tuple(slice(length) for length in source.shape)]
            target.copy_(source)


def exact_shapes(inputs: StepInputs) -> Shapes:
    return {name: tuple(tensor.shape) for name, tensor in inputs.tensors.items()}


def graph_shapes(shape: GraphShape, modules: int, blocks: int) -> Shapes:
    """Of a graph's inputs, with block tables of `blocks` columns."""
    rows = (shape.rows,)
    shapes: Shapes = {
        "token_ids": rows,
        "sources": rows,
        "positions": rows,
        "prompt_tokens": rows,
        "slots": rows,
        "query_starts": (shape.rows + 1,),
        "context_tokens": rows,
        "sample_rows": rows,
        "block_tables": (shape.rows, blocks),
    }
    if shape.lora is not None:
        adapters, tiles = shape.lora.adapters, shape.lora.tiles
        shapes |= {
            "segments": (shape.segments, 3),
            "a_offsets": (adapters, modules, tiles),
            "b_offsets": (adapters, modules, tiles),
            "ranks": (adapters, modules),
            "scales": (adapters, modules),
        }
    return shapes


def decode_inputs(inputs: StepInputs, rows: int) -> StepInputs:
    """A decode step's inputs where unused rows are sequences of their own, without tokens."""
    starts = torch.arange(rows + 1, dtype=torch.int32)
    return replace(inputs, tensors=inputs.tensors | {"query_starts": starts})


class StagingRing:
    """Host blocks taken in turn; one is not written again before its copy has ended.

    Two let a step be written while the one before is still being copied.
    """

    def __init__(self, device: GraphDevice, blocks: int = 2) -> None:
        self._device = device
        self._blocks: list[tuple[Tensor, DeviceEvent]] = [
            (device.host_bytes(0), device.event()) for _ in range(blocks)
        ]
        self._turn = 0

    def send(self, layout: InputLayout, inputs: StepInputs, target: Tensor) -> None:
        """Write inputs, and start to copy them to the first bytes of `target` on the device."""
        block, copied = self._blocks[self._turn]
        copied.synchronize()
        if len(block) < layout.size_bytes:
            block = self._device.host_bytes(2 * layout.size_bytes)
            self._blocks[self._turn] = (block, copied)
        self._turn = (self._turn + 1) % len(self._blocks)
        block = block[: layout.size_bytes]
        layout.write(block, inputs)
        target[: layout.size_bytes].copy_(block, non_blocking=True)
        copied.record()
