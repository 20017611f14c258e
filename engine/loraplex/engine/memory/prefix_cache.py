"""Which full blocks of KV are shared, by key, and in which order the unused ones leave."""

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from loraplex.engine.memory.pool import PageId, PagePool
from loraplex.engine.memory.value import ValueScale
from loraplex.engine.protocol.cache_keys import BlockKey

_RANKS: Final = 5
"""Classes of use: once, 2 or 3 times, 4 to 7 times, and so on; the last has no end.

Within a class the order is that of last use, so a queue each does what a heap would, in O(1).
"""


@dataclass(slots=True, eq=False)
class _Block:
    page: PageId
    key: BlockKey | None
    """None once invalidated: its users keep it, nobody else finds it."""
    references: int = 1
    uses: int = 1
    rank: int = 0
    """The queue it stands in while nobody uses it."""
    value: float = 0.0


class PrefixCache:
    """Full blocks only: key → page, with reference counts.

    A block that nobody uses stays until its page is needed. Among blocks used about equally often
    the least recently used one leaves first, and of one sequence the tail: every user of a block
    uses the blocks before it, so those are never worth less.
    """

    def __init__(self, pool: PagePool, scale: ValueScale) -> None:
        self._pool = pool
        self._scale = scale
        self._by_key: dict[BlockKey, _Block] = {}
        self._by_page: dict[PageId, _Block] = {}
        self._unused: tuple[OrderedDict[PageId, _Block], ...] = tuple(
            OrderedDict() for _ in range(_RANKS)
        )
        self.evictable_pages = 0
        """Blocks that nobody uses."""

    @property
    def cached_pages(self) -> int:
        """Blocks that are shared or could be, in use or not."""
        return len(self._by_page)

    def is_cached(self, page: PageId) -> bool:
        """Whether the page is a shared block and no request's own."""
        return page in self._by_page

    def count_cached(self, keys: Sequence[BlockKey]) -> int:
        """How many blocks `match` would find; changes nothing."""
        for count, key in enumerate(keys):
            if key not in self._by_key:
                return count
        return len(keys)

    def match(self, keys: Sequence[BlockKey]) -> list[PageId]:
        """The pages of the longest cached prefix, each now with one reference more."""
        pages = []
        for key in keys:
            block = self._by_key.get(key)
            if block is None:
                break
            if block.references == 0:
                self._leave_queue(block)
            block.references += 1
            block.uses += 1
            pages.append(block.page)
        return pages

    def unmatch(self, pages: Sequence[PageId]) -> None:
        """Undo a `match` whose request could not start: it does not count as use."""
        for page in pages:
            self._by_page[page].uses -= 1
        self.release(pages)

    def commit(self, key: BlockKey, page: PageId) -> bool:
        """Share a request's own page, full and computed; the request keeps one reference.

        False where the key is cached already: the page stays the request's own.
        """
        assert page not in self._by_page, f"page {page} is a shared block already"
        if key in self._by_key:
            return False
        block = _Block(page, key)
        self._by_key[key] = self._by_page[page] = block
        return True

    def release(self, pages: Sequence[PageId]) -> None:
        """Let go of a request's pages, given in the order of its tokens.

        Shared blocks lose a reference and stay cached; its own pages are free again.
        """
        own = []
        for page in reversed(pages):
            block = self._by_page.get(page)
            if block is None:
                own.append(page)
                continue
            assert block.references > 0, f"page {page} was released more often than used"
            block.references -= 1
            if block.references:
                continue
            if block.key is None:
                self._drop(block)
            else:
                self._enter_queue(block)
        self._pool.give_back(own)

    def invalidate(self, pages: Iterable[PageId]) -> None:
        """Forget what these pages hold: nobody matches them again.

        Users keep their references; unused ones are free at once. Pages that are no shared blocks
        are left alone. A block computed from a bad one is bad too: name all pages of every request
        that uses one of them.
        """
        for page in pages:
            block = self._by_page.get(page)
            if block is None or block.key is None:
                continue
            del self._by_key[block.key]
            block.key = None
            if block.references == 0:
                self._leave_queue(block)
                self._drop(block)

    def evict(self, pages: int, up_to_value: float = math.inf) -> None:
        """Free at most so many unused blocks, the least valuable first, none worth more."""
        freed: list[PageId] = []
        while len(freed) < pages:
            block = self._first()
            if block is None or block.value > up_to_value:
                break
            assert block.key is not None, "what nobody can find is not kept"
            del self._by_key[block.key]
            del self._by_page[block.page]
            self._leave_queue(block)
            self._scale.evicted(block.value)
            freed.append(block.page)
        self._pool.give_back(freed)

    def _first(self) -> _Block | None:
        first = None
        for queue in self._unused:
            if queue:
                block = next(iter(queue.values()))
                if first is None or block.value < first.value:
                    first = block
        return first

    def _enter_queue(self, block: _Block) -> None:
        block.rank = min(block.uses.bit_length(), _RANKS) - 1
        block.value = self._scale.floor + (1 << block.rank)
        self._unused[block.rank][block.page] = block
        self.evictable_pages += 1

    def _leave_queue(self, block: _Block) -> None:
        del self._unused[block.rank][block.page]
        self.evictable_pages -= 1

    def _drop(self, block: _Block) -> None:
        del self._by_page[block.page]
        self._pool.give_back((block.page,))

    def check(self, references: dict[PageId, int]) -> None:
        """Assert that every block has the users that `references` counts."""
        unused = [block for queue in self._unused for block in queue.values()]
        assert len(unused) == self.evictable_pages
        assert {id(b) for b in unused} == {
            id(b) for b in self._by_page.values() if not b.references
        }
        for page, block in self._by_page.items():
            assert block.page == page
            assert block.references == references.get(page, 0), (
                f"the block in page {page} has {block.references} references and "
                f"{references.get(page, 0)} users"
            )
            assert block.uses >= 1
            assert block.key is None or self._by_key[block.key] is block
            assert block.key is not None or block.references, "nobody uses or finds it"
        assert len(self._by_key) == sum(b.key is not None for b in self._by_page.values())

    @property
    def pages(self) -> list[PageId]:
        return list(self._by_page)
