"""Adapters of any size, with a clock that says how long their loads take."""

from collections.abc import Iterable

import torch

from loraplex.engine.lora.layout import AdapterLayout, AdapterTables
from loraplex.engine.memory.eviction import PageBudget
from loraplex.engine.memory.pool import PageId, PagePool
from loraplex.engine.memory.prefix_cache import PrefixCache
from loraplex.engine.memory.residency import AdapterResidency, ResidentAdapter
from loraplex.engine.memory.usage import AdapterKey
from loraplex.engine.memory.value import ValueScale
from loraplex.engine.protocol.cache_keys import BlockKey
from loraplex.engine.protocol.identity import Digest, TenantNamespace

NOTHING = torch.zeros(0)


def adapter_key(name: str) -> AdapterKey:
    return TenantNamespace("tests"), Digest(name)


def anything(_: AdapterKey) -> bool:
    return True


class Memory:
    """A pool with all its owners, and time that passes only when a load takes some."""

    def __init__(self, pages: int, block_seconds: float = 1.0) -> None:
        self.now = 0.0
        self.pool = PagePool(pages, 4, torch.float32, torch.device("cpu"))
        self.scale = ValueScale(block_seconds)
        self.blocks = PrefixCache(self.pool, self.scale)
        self.adapters = AdapterResidency(self.pool, self.scale, lambda: self.now)
        self.budget = PageBudget(self.pool, self.blocks, self.adapters)

    def reserve(self, name: str, pages: int) -> ResidentAdapter:
        layout = AdapterLayout(pages=pages, tiles=(), modules=(), tile_rank=16)
        tables = AdapterTables(NOTHING, NOTHING, NOTHING, NOTHING)
        return self.adapters.reserve(adapter_key(name), layout, lambda _: tables)

    def load(self, name: str, pages: int, seconds: float | None = None) -> ResidentAdapter:
        """Make room, then load an adapter within `seconds` (1 a page); it is idle then."""
        assert self.budget.make_room(pages, anything)
        entry = self.reserve(name, pages)
        self.now += pages if seconds is None else seconds
        self.adapters.finish_load(entry.key, has_failed=False)
        return entry

    def use(self, name: str, pages: int = 1, seconds: float | None = None) -> bool:
        """One request for an adapter; whether it was resident."""
        entry = self.adapters.get(adapter_key(name))
        was_resident = entry is not None
        entry = entry or self.load(name, pages, seconds)
        self.adapters.acquire(entry)
        self.adapters.release(entry)
        return was_resident

    def cache(self, names: Iterable[str], uses: int = 1) -> None:
        """One block a name, computed once and matched for the other uses."""
        for name in names:
            assert self.budget.make_room(1, anything)
            pages: list[PageId] = self.pool.take(1)
            assert self.blocks.commit(BlockKey(name.encode()), pages[0])
            self.blocks.release(pages)
            for _ in range(uses - 1):
                self.blocks.release(self.blocks.match([BlockKey(name.encode())]))

    def has_block(self, name: str) -> bool:
        return self.blocks.count_cached([BlockKey(name.encode())]) == 1

    def has_adapter(self, name: str) -> bool:
        return self.adapters.get(adapter_key(name)) is not None
