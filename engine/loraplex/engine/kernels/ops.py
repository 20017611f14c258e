"""Defines the ops: one schema each, a backend for each device.

Torch's dispatcher is the registry. `reference` answers on every device; a device with a backend
of its own registers it under its dispatch key, as `cpu` does here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import torch
from torch import Tensor

from loraplex.engine.kernels import cpu, reference

SCHEMAS: Final = {
    "sgmv_shrink": (
        "(Tensor x, Tensor pages, Tensor offsets, Tensor ranks, Tensor segments, int tile_rank)"
        " -> Tensor"
    ),
    "sgmv_expand": (
        "(Tensor(a!) y, Tensor h, Tensor pages, Tensor offsets, Tensor ranks, Tensor scales,"
        " Tensor segments, int[] slice_starts, int tile_rank) -> ()"
    ),
    "write_kv": (
        "(Tensor kv, Tensor(a!) pages, Tensor slots, int layer, int layers, int block_tokens) -> ()"
    ),
    "paged_attention": (
        "(Tensor query, Tensor pages, Tensor block_tables, Tensor query_starts,"
        " Tensor context_tokens, int layer, int layers, int block_tokens, int kv_heads,"
        " float scale, int window) -> Tensor"
    ),
}
"""sgmv_shrink: h[row, slice] = x[row] · A[adapter of row, slice]ᵀ, summed in float32, unscaled.

    x         [rows, in_features]
    pages     [pages, page_elements]       x's dtype
    offsets   [adapters, slices, tiles]    int64 elements from the start of pages; A's tiles are
                                           [ranks, in_features], the last may have fewer ranks
    ranks     [adapters, slices]           int32 true ranks, 0 where the module is absent
    segments  [segments, 3]                int32 (first row, end row, adapter); other rows are base
    returns   [rows, slices, tiles * tile_rank]  float32, 0 in base rows and past the rank

sgmv_expand: y[row, slice's columns] += scale · h[row, slice] · B[adapter of row, slice]ᵀ, once.

    y             [rows, out_features]     all slices side by side
    h             what sgmv_shrink returned
    offsets       as above; B's tiles are [ranks, out_features of the slice]
    scales        [adapters, slices]       float32
    slice_starts  slices + 1 columns of y

write_kv: the token row slots[row] + layer * block_tokens of pages takes kv[row].

    kv        [rows, 2, kv_heads, head_size]  key and value
    pages     [pages, layers * block_tokens * 2 * kv_heads * head_size]
    slots     [rows]  int64: page * layers * block_tokens + the token's place in its block

paged_attention: softmax(scale · q · Kᵀ) · V over a sequence's own past, causal, for any mix of
chunks and single tokens; query head i reads key-value head i * kv_heads // heads.

    query           [rows, heads, head_size]
    block_tables    [sequences, blocks]  int32 pages; entries past the sequence's end name
                                         any page of the same sequence
    query_starts    [sequences + 1]      int32 first row of each sequence
    context_tokens  [sequences]          int32 tokens in pages, this step's included
    window          tokens a row sees, itself included; 0 for all
    returns         [rows, heads, head_size]
"""

Op = Callable[..., Any]


class Backend(StrEnum):
    REFERENCE = "reference"
    CPU = "cpu"


_BACKENDS: Final = {Backend.REFERENCE: reference, Backend.CPU: cpu}
_DISPATCH_KEYS: Final = {
    Backend.REFERENCE: "CompositeExplicitAutograd",
    Backend.CPU: "CPU",
}


def _shrink_shape(
    x: Tensor, pages: Tensor, offsets: Tensor, ranks: Tensor, segments: Tensor, tile_rank: int
) -> Tensor:
    slices, tiles = offsets.shape[1:]
    return x.new_empty((x.shape[0], slices, tiles * tile_rank), dtype=torch.float32)


def _attention_shape(query: Tensor, *_: object) -> Tensor:
    return torch.empty_like(query)


def _nothing(*_: object) -> None:
    return None


_SHAPES: Final[dict[str, Op]] = {
    "sgmv_shrink": _shrink_shape,
    "sgmv_expand": _nothing,
    "write_kv": _nothing,
    "paged_attention": _attention_shape,
}

# The library object must live as long as the ops: torch forgets them with it.
_library = torch.library.Library("loraplex", "DEF")  # type: ignore[no-untyped-call]
for _name, _schema in SCHEMAS.items():
    _library.define(_name + _schema)  # type: ignore[no-untyped-call]
    for _backend, _module in _BACKENDS.items():
        _library.impl(_name, getattr(_module, _name), _DISPATCH_KEYS[_backend])  # type: ignore[no-untyped-call]
    _library.impl(_name, _SHAPES[_name], "Meta")  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Kernels:
    """The four ops, as a model calls them."""

    sgmv_shrink: Op
    sgmv_expand: Op
    write_kv: Op
    paged_attention: Op


def kernels(backend: Backend | None = None) -> Kernels:
    """The ops by device of their tensors, or one named backend whatever the device."""
    if backend is not None:
        module = _BACKENDS[backend]
        return Kernels(**{name: getattr(module, name) for name in SCHEMAS})
    return Kernels(**{name: getattr(torch.ops.loraplex, name).default for name in SCHEMAS})
