"""What running requests count, a row each: a step reads and moves all of them at once."""

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from loraplex.engine.memory.pool import PageId

if TYPE_CHECKING:
    from loraplex.engine.request import Request

Integers = npt.NDArray[np.int64]

NO_ADAPTER: Final = -1

_FIRST_ROWS: Final = 64
_FIRST_BLOCKS: Final = 64
_COLUMNS: Final = (
    *("computed", "wanted", "settled", "known", "prompt", "limit", "blocks"),
    *("next_share", "last_token", "adapter", "in_flight", "granted"),
)


class RunningRows:
    """Columns `[rows]` and a block table `[rows, blocks]`, which grow as they must.

    A request has a row from its start until its pages are released; it is running until it ends,
    which may be while a step still computes it. What a row counts that nobody has means nothing.
    """

    computed: Integers
    """Tokens whose keys and values are in pages, or will be after the steps in flight."""
    wanted: Integers
    """Prompt and output so far, with what steps in flight are sampling."""
    settled: Integers
    """Computed by steps that are known to have succeeded."""
    known: Integers
    """Prompt and output so far."""
    prompt: Integers
    limit: Integers
    """Prompt and output at most."""
    blocks: Integers
    """Pages in its block table."""
    next_share: Integers
    """Settled tokens that fill another block."""
    last_token: Integers
    """The newest one that is known."""
    adapter: Integers
    """The number of its adapter, or NO_ADAPTER."""
    in_flight: Integers
    """Steps that compute it and have not been settled."""
    granted: Integers
    """What the newest plan lets it compute."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.is_running = np.zeros(_FIRST_ROWS, dtype=np.bool_)
        self.pages = np.zeros((_FIRST_ROWS, _FIRST_BLOCKS), dtype=np.int32)
        """The block table; past a row's pages stands its own first page."""
        self.requests: list[Request | None] = [None] * _FIRST_ROWS
        self._free = list(range(_FIRST_ROWS - 1, -1, -1))
        self._name(np.zeros((len(_COLUMNS), _FIRST_ROWS), dtype=np.int64))

    def take(self, request: "Request") -> int:
        """A row for a request that starts; it is running, with no pages and nothing counted."""
        if not self._free:
            self._add_rows()
        row = self._free.pop()
        self._columns[:, row] = 0
        self.requests[row] = request
        self.is_running[row] = True
        return row

    def give_back(self, row: int) -> None:
        self.is_running[row] = False
        self.requests[row] = None
        self._free.append(row)

    def held_by(self, rows: Integers) -> "list[Request]":
        """The requests of rows that somebody has."""
        requests = self.requests
        return [requests[row] for row in rows.tolist()]

    def add_pages(self, row: int, pages: list[PageId]) -> None:
        start = int(self.blocks[row])
        end = start + len(pages)
        self._widen(end)
        if start == 0 and pages:
            self.pages[row] = pages[0]
        self.pages[row, start:end] = pages
        self.blocks[row] = end

    def add_page_each(self, rows: Integers, pages: list[PageId]) -> None:
        """One page more for each of so many rows."""
        ends = self.blocks[rows]
        self._widen(int(ends.max()) + 1)
        self.pages[rows, ends] = pages
        self.blocks[rows] = ends + 1

    def pages_of(self, row: int, start: int, end: int) -> list[PageId]:
        """Of its blocks from `start` to `end`."""
        pages: list[PageId] = self.pages[row, start:end].tolist()
        return pages

    def missing(self) -> Integers:
        """`[rows]`: tokens that are wanted and not computed of those that run, 0 of others."""
        return (self.wanted - self.computed) * self.is_running

    def are_full(self) -> npt.NDArray[np.bool_]:
        """`[rows]`: whether the next token finds no place in the row's pages."""
        return self.computed >= self.blocks * self.block_tokens

    def growing(self) -> int:
        """Running requests whose pages do not hold all that they may still compute."""
        may_grow = self.blocks * self.block_tokens < self.limit - 1
        return int(np.count_nonzero(may_grow & self.is_running))

    def begin(self, rows: Integers, tokens: Integers) -> None:
        """A step has been submitted: its tokens count as computed, what it samples is wanted."""
        self.in_flight[rows] += 1
        computed = self.computed[rows] + tokens
        self.computed[rows] = computed
        samples = (computed == self.wanted[rows]) & (computed < self.limit[rows] - 1)
        self.wanted[rows] += samples

    def settle(self, rows: Integers, tokens: Integers) -> int:
        """Those tokens have been computed; how many of them belong to prompts that still run."""
        self.settled[rows] += tokens
        is_prompt = (self.known[rows] == self.prompt[rows]) & self.is_running[rows]
        return int(tokens @ is_prompt)

    def have_filled_a_block(self, rows: Integers) -> Integers:
        """Those of the running `rows` that have settled another block."""
        is_due = (self.settled[rows] >= self.next_share[rows]) & self.is_running[rows]
        return rows[is_due]

    def accept(self, rows: Integers, token_ids: list[int]) -> list[bool]:
        """Count the tokens that a step has sampled; whether each is the last one allowed."""
        self.last_token[rows] = token_ids
        known = self.known[rows] + 1
        self.known[rows] = known
        are_last: list[bool] = (known == self.limit[rows]).tolist()
        return are_last

    def _add_rows(self) -> None:
        rows = len(self.requests)
        self._name(np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1))
        self.is_running = np.concatenate([self.is_running, np.zeros_like(self.is_running)])
        self.pages = np.concatenate([self.pages, np.zeros_like(self.pages)])
        self.requests += [None] * rows
        self._free = list(range(2 * rows - 1, rows - 1, -1))

    def _widen(self, blocks: int) -> None:
        while blocks > self.pages.shape[1]:
            padding = np.broadcast_to(self.pages[:, :1], self.pages.shape)
            self.pages = np.concatenate([self.pages, padding], axis=1)

    def _name(self, columns: Integers) -> None:
        self._columns = columns
        for name, column in zip(_COLUMNS, columns, strict=True):
            setattr(self, name, column)
