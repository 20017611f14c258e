"""Defines the ops: one schema each, a backend for each device.

Torch's dispatcher is the registry. `reference` answers on every device; a device with a backend
of its own registers it under its dispatch key, as `cpu` and `triton` do here. Triton is imported
when a kernel is first wanted: a machine without it, or a process on a CPU, never does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any, Final

import torch
from torch import Tensor

from loraplex.engine.kernels import cpu, reference
from loraplex.engine.kernels.native import ops as native
from loraplex.engine.kernels.triton.tiles import shrink_splits

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
    segments  [segments, 3]                int32 (first row, end row, adapter); other rows are base,
                                           and a segment that ends where it starts has none
    returns   [rows, slices, tiles * tile_rank]  float32; of no meaning in base rows and past the
                                           rank. On a GPU [splits, …]: partial sums over features,
                                           which expand adds in order

sgmv_expand: y[row, slice's columns] += scale · h[row, slice] · B[adapter of row, slice]ᵀ, once.

    y             [rows, out_features]     all slices side by side
    h             what sgmv_shrink returned
    offsets       as above; B's tiles are [ranks, out_features of the slice]
    scales        [adapters, slices]       float32
    slice_starts  slices + 1 columns of y

write_kv: the token row slots[row] + layer * block_tokens of pages takes kv[row].

    kv        [rows, 2, kv_heads, head_size]  key and value
    pages     [pages, layers * block_tokens * 2 * kv_heads * head_size]
    slots     [rows]  int64: page * layers * block_tokens + the token's place in its block;
                      a row whose slot is below 0 is not written

paged_attention: softmax(scale · q · Kᵀ) · V over a sequence's own past, causal, for any mix of
chunks and single tokens; query head i reads key-value head i * kv_heads // heads.

    query           [rows, heads, head_size]
    block_tables    [sequences, blocks]  int32 pages; entries past the sequence's end name
                                         any page of the same sequence
    query_starts    [sequences + 1]      int32 first row of each sequence
    context_tokens  [sequences]          int32 tokens in pages, this step's included; where it is
                                         0, the sequence's rows become 0
    window          tokens a row sees, itself included; 0 for all
    returns         [rows, heads, head_size]; of no meaning in rows of no sequence
"""

Op = Callable[..., Any]


class Backend(StrEnum):
    REFERENCE = "reference"
    CPU = "cpu"
    NATIVE = "native"
    TRITON = "triton"


_TRITON: Final = "loraplex.engine.kernels.triton.backend"
_DISPATCH_KEYS: Final = {
    Backend.REFERENCE: "CompositeExplicitAutograd",
    Backend.NATIVE: "CPU",
    Backend.TRITON: "CUDA",
}


def _implementation(backend: Backend, name: str) -> Op:
    if backend is Backend.TRITON:
        return lambda *arguments: getattr(import_module(_TRITON), name)(*arguments)
    implementation: Op = getattr(
        {Backend.REFERENCE: reference, Backend.CPU: cpu, Backend.NATIVE: native}[backend], name
    )
    return implementation


def _shrink_shape(
    x: Tensor, pages: Tensor, offsets: Tensor, ranks: Tensor, segments: Tensor, tile_rank: int
) -> Tensor:
    rows, in_features = x.shape
    slices, tiles = offsets.shape[1:]
    h = x.new_empty((rows, slices, tiles * tile_rank), dtype=torch.float32)
    if x.device.type == "cuda":
        return h.new_empty((shrink_splits(rows, segments.shape[0], in_features), *h.shape))
    return h


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
    for _backend, _key in _DISPATCH_KEYS.items():
        _library.impl(_name, _implementation(_backend, _name), _key)  # type: ignore[no-untyped-call]
    # Unlike an implementation for Meta, this sees which device a fake tensor stands for.
    torch.library.register_fake(f"loraplex::{_name}", _SHAPES[_name], lib=_library)


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
        return Kernels(**{name: _implementation(backend, name) for name in SCHEMAS})
    return Kernels(**{name: getattr(torch.ops.loraplex, name).default for name in SCHEMAS})
