"""What DoRA and biases come down to: a gain and a shift for each feature of a linear's output.

PEFT's DoRA gives m / n · (W + s·B·A) · x + b, with m the magnitudes and n the norms of the rows of
W + s·B·A. That is g · y + (1 - g) · b for the y = (W + s·B·A) · x + b that base and LoRA make
anyway, with g = m / n: two vectors, made once when the adapter is loaded.
"""

from typing import Final, Protocol

import torch
from torch import Tensor

_ROWS: Final = 1024
"""Of a base weight that are widened at once."""


class BaseLinears(Protocol):
    """The base model's weights as a load reads them, on their device, in float32."""

    def rows(self, path: str, start: int, end: int) -> Tensor:
        """Rows of the weight at `path`, of an embedding's table too: `[rows, features]`."""
        ...

    def bias(self, path: str) -> Tensor | None: ...


def linear_gain(
    base: BaseLinears, path: str, magnitude: Tensor, a: Tensor, b: Tensor, scale: float
) -> Tensor:
    """m / |W + s·B·A|, row by row: `[out_features]` on the CPU, float32.

    A row of zeros has the gain 0: nothing comes out of it at any gain.
    """
    norms = []
    for start in range(0, len(b), _ROWS):
        weight = base.rows(path, start, min(start + _ROWS, len(b)))
        update = b[start : start + _ROWS].to(weight.device) @ a.to(weight.device)
        norms.append(weight.add(update, alpha=scale).norm(dim=1))
    return _over(magnitude, torch.cat(norms))


def embedding_gain(
    base: BaseLinears, path: str, magnitude: Tensor, a: Tensor, b: Tensor, scale: float
) -> Tensor:
    """m over the norms of the columns of the table E + s·(B·A)ᵀ, one a hidden feature."""
    tokens = a.shape[1]
    squares = torch.zeros(len(b), dtype=torch.float64)
    for start in range(0, tokens, _ROWS):
        end = min(start + _ROWS, tokens)
        table = base.rows(path, start, end)
        update = a[:, start:end].T.to(table.device) @ b.T.to(table.device)
        squares += table.add(update, alpha=scale).square().sum(dim=0).cpu()
    return _over(magnitude, squares.sqrt().float())


def _over(magnitude: Tensor, norm: Tensor) -> Tensor:
    norm = norm.cpu()
    return torch.where(norm > 0, magnitude / norm, 0.0)


def shift_of(
    base_bias: Tensor | None, replaced: Tensor | None, added: Tensor | None, gain: Tensor | None
) -> Tensor:
    """What is added after the gain: a bias in the base's place, and PEFT's lora_bias, scaled.

    At least one of the biases is there; all are `[out_features]`.
    """
    shift = torch.zeros(())
    if base_bias is not None:
        kept = base_bias.cpu() if replaced is None else replaced
        shift = kept - base_bias.cpu() * (1.0 if gain is None else gain)
    return shift if added is None else shift + added
