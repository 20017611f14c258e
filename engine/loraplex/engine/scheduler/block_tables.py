"""The pages of running requests as kernels read them, kept from step to step in one array."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loraplex.engine.memory.pool import PageId

_FIRST_BLOCKS = 64


class BlockTables:
    """`[rows, blocks]`; past a row's pages stands its own first page. Grows as it must."""

    def __init__(self) -> None:
        self._pages = np.zeros((16, _FIRST_BLOCKS), dtype=np.int32)
        self._free = list(range(15, -1, -1))

    def take_row(self) -> "TableRow":
        if not self._free:
            rows, blocks = self._pages.shape
            self._pages = np.concatenate([self._pages, np.zeros((rows, blocks), dtype=np.int32)])
            self._free = list(range(2 * rows - 1, rows - 1, -1))
        return TableRow(self, self._free.pop())

    def gather(self, rows: list[int], blocks: int) -> npt.NDArray[np.int32]:
        """`[len(rows), blocks]`, a copy."""
        return self._pages[:, :blocks].take(rows, axis=0)

    def write(self, row: int, start: int, pages: list[PageId]) -> None:
        end = start + len(pages)
        while end > self._pages.shape[1]:
            rows, blocks = self._pages.shape
            padding = np.broadcast_to(self._pages[:, :1], (rows, blocks))
            self._pages = np.concatenate([self._pages, padding], axis=1)
        if start == 0 and pages:
            self._pages[row] = pages[0]
        self._pages[row, start:end] = pages

    def give_back(self, row: int) -> None:
        self._free.append(row)


@dataclass(frozen=True, slots=True)
class TableRow:
    """One request's row, from its start until its pages are released."""

    tables: BlockTables
    number: int

    def append(self, start: int, pages: list[PageId]) -> None:
        """Write pages behind the `start` that are there."""
        self.tables.write(self.number, start, pages)

    def give_back(self) -> None:
        self.tables.give_back(self.number)
