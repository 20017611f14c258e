"""The base's weights by path, as loads of adapters read them while steps go on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from loraplex.engine.models.linear import Linear, Weight


@dataclass(frozen=True)
class Part:
    """A linear that lies among others: rows `start` to `end` of what they are joined to."""

    whole: Linear
    start: int
    end: int


class DecoderLinears:
    """The decoder's linears, its embedding and its head. Reads only."""

    def __init__(self, parts: dict[str, Part], tables: dict[str, Weight]) -> None:
        self._parts = parts
        self._tables = tables

    def rows(self, path: str, start: int, end: int) -> Tensor:
        table = self._tables.get(path)
        first = 0
        if table is None:
            part = self._parts[path]
            table, first = part.whole.weight, part.start
        with torch.inference_mode():
            return table.span(first + start, first + end).float()

    def bias(self, path: str) -> Tensor | None:
        part = self._parts[path]
        bias = part.whole.bias
        return None if bias is None else bias[part.start : part.end].float()
