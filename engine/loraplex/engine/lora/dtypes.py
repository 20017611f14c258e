"""Elements of an adapter's file as the dtypes they are stored in and those they are wanted in."""

from itertools import pairwise
from typing import Final

import torch
from torch import Tensor

from loraplex.engine.lora.reading import Words
from loraplex.engine.protocol.adapter import TensorRef
from loraplex.engine.protocol.errors import AdapterUnavailable

_DTYPES: Final = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}

_ONE_THREAD_ELEMENTS: Final = 32768 - 1
"""Torch hands conversions of more elements to its threads (at::internal::GRAIN_SIZE). A second
team of them would fight the step's for the cores."""


def dtype_of(tensor: TensorRef) -> torch.dtype:
    """Raises AdapterUnavailable where the spec's bytes are not the tensor's."""
    dtype = _DTYPES[tensor.dtype]
    if tensor.end - tensor.start != tensor.shape[0] * tensor.shape[1] * dtype.itemsize:
        raise AdapterUnavailable(f"The adapter's tensor {tensor.name} does not fill its bytes.")
    return dtype


def convert(stored: Tensor, wanted: Tensor) -> None:
    """Copy a flat tensor into one of another dtype, on the calling thread alone."""
    borders = [*range(0, len(stored), _ONE_THREAD_ELEMENTS), len(stored)]
    for start, end in pairwise(borders):
        wanted[start:end].copy_(stored[start:end])


def floats(tensor: TensorRef, words: Words) -> Tensor:
    """A tensor's elements, of any shape, in its own and in float32."""
    stored = torch.from_numpy(words.reshape(-1)).view(_DTYPES[tensor.dtype])
    if stored.dtype is not torch.float32:
        wide = torch.empty(len(stored), dtype=torch.float32)
        convert(stored, wide)
        stored = wide
    return stored.view(tensor.shape)
