"""Applies adapters' extras to their rows, in plain torch: few adapters have any."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from loraplex.engine.lora.extras import Affine, EndLora
from loraplex.engine.lora.segments import ExtraRows


@dataclass(frozen=True)
class ExtraStep:
    """The rows of one step whose adapters are more than pairs of linears."""

    rows: Sequence[ExtraRows]
    pages: Tensor

    def embed(self, hidden: Tensor, token_ids: Tensor) -> None:
        """Change the embeddings `[rows, hidden_size]` of tokens `[rows]` in place."""
        for rows in self.rows:
            lora = rows.extras.embedding
            if lora is not None:
                h = lora.a.take(self.pages, token_ids[rows.start : rows.end])
                self._add(lora, h, hidden[rows.start : rows.end])

    def adjust(self, y: Tensor, first_module: int, slice_starts: Sequence[int]) -> None:
        """Scale and shift the outputs of modules that lie side by side in y, in place."""
        for rows in self.rows:
            for place in range(len(slice_starts) - 1):
                affine = rows.extras.affine.get(first_module + place)
                if affine is not None:
                    columns = slice(slice_starts[place], slice_starts[place + 1])
                    self._apply(affine, y[rows.start : rows.end, columns])

    def choose(self, logits: Tensor, normed: Tensor) -> None:
        """Change `[sampled, vocabulary]` in place, the head's of `[sampled, hidden_size]`."""
        for rows in self.rows:
            lora = rows.extras.head
            if lora is not None and rows.first < rows.last:
                x = normed[rows.first : rows.last].float()
                h = torch.cat([x @ a.float().T for _, _, a in lora.a.blocks(self.pages)], dim=1)
                self._add(lora, h, logits[rows.first : rows.last])

    def _add(self, lora: EndLora, h: Tensor, y: Tensor) -> None:
        """y = gain · (y + scale · h · Bᵀ) + shift, for h `[rows, rank]`."""
        for start, end, b in lora.b.blocks(self.pages):
            y[:, start:end].add_(h.float() @ b.float().T, alpha=lora.scale)
        self._apply(lora.affine, y)

    def _apply(self, affine: Affine, y: Tensor) -> None:
        if affine.gain is not None:
            for start, end, gain in affine.gain.blocks(self.pages):
                y[:, start:end].mul_(gain.view(-1))
        if affine.shift is not None:
            for start, end, shift in affine.shift.blocks(self.pages):
                y[:, start:end].add_(shift.view(-1))


def extra_step(rows: Sequence[ExtraRows], pages: Tensor) -> ExtraStep | None:
    return ExtraStep(rows, pages) if rows else None
