"""Base linears with the LoRA of each row's adapter beside them, during one step."""

from torch import Tensor

from loraplex.engine.kernels.native.panels import adapters_of
from loraplex.engine.kernels.ops import Kernels
from loraplex.engine.lora.extra_steps import extra_step
from loraplex.engine.lora.modules import GROUPS, LINEARS, LinearGroup
from loraplex.engine.lora.segments import LoraBatch
from loraplex.engine.models.linear import Linear


class AdaptedStep:
    """y = x · Wᵀ + b + scale · (x · Aᵀ) · Bᵀ, with A, B and scale of each row's adapter.

    Where the base's weight can do all of it in one call it does; elsewhere sgmv follows it.
    """

    def __init__(self, batch: LoraBatch, kernels: Kernels, pages: Tensor) -> None:
        self._batch = batch
        self._kernels = kernels
        self._pages = pages
        self._extras = extra_step(batch.extras, pages)
        self._compiled = adapters_of(
            batch.a_offsets,
            batch.b_offsets,
            batch.ranks,
            batch.scales,
            batch.segments,
            batch.tile_rank,
            pages,
        )

    def linear(
        self,
        base: Linear,
        x: Tensor,
        layer: int,
        group: LinearGroup,
        slice_starts: tuple[int, ...],
    ) -> Tensor:
        """`[rows, in_features]` to `[rows, out_features]` of a group of linears that share x.

        `slice_starts` are the columns where the group's linears begin, and the end.
        """
        y = self._linear(base, x, layer, group, slice_starts)
        if self._extras is not None:
            self._extras.adjust(y, layer * len(LINEARS) + group.start, slice_starts)
        return y

    def embed(self, hidden: Tensor, token_ids: Tensor) -> None:
        """Add what adapters have for the embeddings `[rows, hidden_size]` of tokens, in place."""
        if self._extras is not None:
            self._extras.embed(hidden, token_ids)

    def choose(self, logits: Tensor, normed: Tensor) -> None:
        """Add what adapters have for the head to `[sampled, vocabulary]`, in place."""
        if self._extras is not None:
            self._extras.choose(logits, normed)

    def _linear(
        self,
        base: Linear,
        x: Tensor,
        layer: int,
        group: LinearGroup,
        slice_starts: tuple[int, ...],
    ) -> Tensor:
        if not self._batch.has_group[layer * len(GROUPS) + group.index]:
            return base(x)
        first = layer * len(LINEARS) + group.start
        if self._compiled is not None:
            y = base.adapted(x, self._compiled, first, slice_starts)
            if y is not None:
                return y
        y = base(x)
        self._add(x, y, slice(first, first + group.end - group.start), slice_starts)
        return y

    def _add(self, x: Tensor, y: Tensor, modules: slice, slice_starts: tuple[int, ...]) -> None:
        batch = self._batch
        ranks = batch.ranks[:, modules]
        h = self._kernels.sgmv_shrink(
            x,
            self._pages,
            batch.a_offsets[:, modules],
            ranks,
            batch.segments,
            batch.tile_rank,
        )
        self._kernels.sgmv_expand(
            y,
            h,
            self._pages,
            batch.b_offsets[:, modules],
            ranks,
            batch.scales[:, modules],
            batch.segments,
            slice_starts,
            batch.tile_rank,
        )
