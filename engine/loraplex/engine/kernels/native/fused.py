"""The ops of `kernels.fused` on a CPU, by the compiled library."""

from ctypes import byref
from typing import Any

import torch
from torch import Tensor

from loraplex.engine.kernels.native.library import MOST_HEAD_SIZE, Library, Rotation, library


def can(name: str, *arguments: Any) -> bool:
    """Whether the library is there and reads tensors like these."""
    tensors = [a for a in arguments if isinstance(a, Tensor) and a.is_floating_point()]
    if not all(t.dtype == torch.float32 and t.is_contiguous() for t in tensors):
        return False
    if name == "rotate_and_write_kv" and 2 * arguments[1].shape[1] > MOST_HEAD_SIZE:
        return False
    return library() is not None


def _library() -> Library:
    found = library()
    assert found is not None, "can() has answered for it"
    return found


def add_norm(hidden: Tensor, delta: Tensor | None, weight: Tensor, epsilon: float) -> Tensor:
    out = torch.empty_like(hidden)
    _library().add_norm(
        hidden.data_ptr(),
        None if delta is None else delta.data_ptr(),
        weight.data_ptr(),
        epsilon,
        out.data_ptr(),
        *hidden.shape,
    )
    return out


def rotate_and_write_kv(
    qkv: Tensor,
    cosine: Tensor,
    sine: Tensor,
    norm: Tensor | None,
    epsilon: float,
    pages: Tensor,
    slots: Tensor,
    heads: int,
    kv_heads: int,
    layer: int,
    layers: int,
    block_tokens: int,
) -> Tensor:
    rows, head_size = qkv.shape[0], 2 * cosine.shape[1]
    query = qkv.new_empty(rows, heads, head_size)
    rotation = Rotation(heads, kv_heads, head_size, layer * block_tokens, epsilon)
    _library().rotate_and_write(
        qkv.data_ptr(),
        cosine.data_ptr(),
        sine.data_ptr(),
        None if norm is None else norm.data_ptr(),
        byref(rotation),
        query.data_ptr(),
        pages.data_ptr(),
        slots.data_ptr(),
        rows,
    )
    return query


def gate(gate_up: Tensor) -> Tensor:
    rows, columns = gate_up.shape
    out = gate_up.new_empty(rows, columns // 2)
    _library().gate(gate_up.data_ptr(), out.data_ptr(), rows, columns // 2)
    return out
