"""Matrices of any height, stored row after row in blocks over several pages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from loraplex.engine.memory.pool import PageId


@dataclass(frozen=True, slots=True)
class Block:
    """Rows `start` to `end`, from element `offset` of the adapter's own page `page`."""

    start: int
    end: int
    page: int
    offset: int


@dataclass(frozen=True)
class SpreadLayout:
    """Where the rows of a matrix `[rows, width]` go; all blocks but the last have as many."""

    rows: int
    width: int
    blocks: tuple[Block, ...]

    def at(self, pages: Sequence[PageId], page_elements: int) -> "Spread":
        """The matrix of an adapter whose pages are these."""
        return Spread(
            self.rows,
            self.width,
            self.blocks[0].end,
            tuple(pages[block.page] * page_elements + block.offset for block in self.blocks),
        )


def plan_spread(rows: int, width: int, used: list[int], page_elements: int) -> SpreadLayout:
    """Place a matrix in pages filled as `used` says, a page a block; opens pages where needed."""
    rows_a_block = min(rows, page_elements // width)
    blocks = []
    for start in range(0, rows, rows_a_block):
        end = min(start + rows_a_block, rows)
        blocks.append(Block(start, end, *place((end - start) * width, used, page_elements)))
    return SpreadLayout(rows, width, tuple(blocks))


def place(elements: int, used: list[int], page_elements: int) -> tuple[int, int]:
    """First fit: the page and offset of so many elements; opens a page where none has room."""
    for page, filled in enumerate(used):
        if filled + elements <= page_elements:
            used[page] = filled + elements
            return page, filled
    used.append(elements)
    return len(used) - 1, 0


@dataclass(frozen=True)
class Spread:
    """A matrix in the pool: `offsets` count elements from its start, one a block of rows."""

    rows: int
    width: int
    block_rows: int
    offsets: tuple[int, ...]

    def blocks(self, pages: Tensor) -> Iterator[tuple[int, int, Tensor]]:
        """(first row, end row, `[rows, width]`) of each block; views of the pool."""
        for number, offset in enumerate(self.offsets):
            start = number * self.block_rows
            end = min(start + self.block_rows, self.rows)
            yield start, end, pages.as_strided((end - start, self.width), (self.width, 1), offset)

    def take(self, pages: Tensor, numbers: Tensor) -> Tensor:
        """Rows `[numbers, width]` by number."""
        offsets = torch.tensor(self.offsets, device=pages.device)
        starts = offsets[numbers // self.block_rows] + numbers % self.block_rows * self.width
        elements = torch.arange(self.width, device=pages.device)
        return pages.view(-1)[starts[:, None] + elements]
