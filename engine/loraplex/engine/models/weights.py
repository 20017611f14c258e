"""Reads tensors from a model directory's safetensors files, sharded or not."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from loraplex.engine.protocol.model_config import refuse
from loraplex.engine.protocol.model_files import stored_tensors


class ModelWeights:
    """Tensors by name, in their stored dtype; each is read from disk when asked for."""

    def __init__(self, files: dict[str, "safe_open"]) -> None:
        self._files = files

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def read(self, name: str) -> Tensor:
        """Raises UnsupportedModel where the tensor is missing."""
        if name not in self._files:
            refuse(f"The weights lack {name}.", name, "present", "missing")
        tensor: Tensor = self._files[name].get_tensor(name)  # type: ignore[no-untyped-call]
        return tensor

    def join(self, names: list[str], dtype: torch.dtype | None, device: torch.device) -> Tensor:
        """Tensors stacked along their first dimension, converted; no tensor is held twice.

        With `dtype` None the result is as wide as the widest of them.
        """
        parts = [self.read(name) for name in names]
        dtype = dtype or reduce(torch.promote_types, [part.dtype for part in parts])
        rows = sum(part.shape[0] for part in parts)
        joined = torch.empty(rows, *parts[0].shape[1:], dtype=dtype, device=device)
        start = 0
        for part in parts:
            joined[start : start + part.shape[0]].copy_(part)
            start += part.shape[0]
        return joined


@contextmanager
def open_weights(model_dir: Path) -> Iterator[ModelWeights]:
    """The weights while the files are open; tensors read must not outlive them uncopied."""
    with ExitStack() as stack:
        opened: dict[str, safe_open] = {}
        files = {}
        for name, stored in stored_tensors(model_dir).items():
            if stored.file not in opened:
                handle = safe_open(model_dir / stored.file, framework="pt")
                opened[stored.file] = stack.enter_context(handle)
            files[name] = opened[stored.file]
        yield ModelWeights(files)
