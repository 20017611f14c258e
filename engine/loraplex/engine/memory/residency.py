"""Which adapters are in the pool, who uses them, and which may leave."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from loraplex.engine.lora.layout import AdapterLayout, AdapterTables
from loraplex.engine.memory.pool import PageId, PagePool
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.identity import Digest, TenantNamespace

AdapterKey = tuple[TenantNamespace, Digest]
"""The namespace is part of it, so that no tenant learns from timing what another has resident."""


def key_of(ref: AdapterRef) -> AdapterKey:
    return ref.namespace, ref.spec.digest


@dataclass(slots=True, eq=False)
class ResidentAdapter:
    """An adapter's pages. While `is_loading` they belong to the load and no step may read them."""

    key: AdapterKey
    pages: list[PageId]
    tables: AdapterTables
    is_loading: bool = True
    users: int = 0
    """Running requests; while there are any, the pages stay."""


@dataclass(slots=True)
class AdapterResidency:
    """The residency table, least recently used first."""

    pool: PagePool
    entries: OrderedDict[AdapterKey, ResidentAdapter] = field(default_factory=OrderedDict)
    resident_pages: int = 0
    """Pages of all entries, those of loads in flight included."""
    loads_in_flight: int = 0
    loads: int = 0
    """Loads that succeeded since the engine began."""

    @property
    def resident_adapters(self) -> int:
        """Adapters whose load has ended."""
        return len(self.entries) - self.loads_in_flight

    def get(self, key: AdapterKey) -> ResidentAdapter | None:
        return self.entries.get(key)

    def reserve(
        self,
        key: AdapterKey,
        layout: AdapterLayout,
        tables: Callable[[list[PageId]], AdapterTables],
    ) -> ResidentAdapter:
        """Take all pages of a load before it starts; there are enough free ones."""
        assert key not in self.entries, "an adapter is loaded once at a time"
        pages = self.pool.take(layout.pages)
        entry = ResidentAdapter(key, pages, tables(pages))
        self.entries[key] = entry
        self.resident_pages += len(pages)
        self.loads_in_flight += 1
        return entry

    def finish_load(self, key: AdapterKey, *, has_failed: bool) -> None:
        """End a load: the adapter is resident, or all its pages are free again."""
        entry = self.entries[key]
        assert entry.is_loading
        self.loads_in_flight -= 1
        if has_failed:
            self._drop(entry)
            return
        entry.is_loading = False
        self.loads += 1
        self.entries.move_to_end(key)

    def acquire(self, entry: ResidentAdapter) -> None:
        assert not entry.is_loading, "no step reads pages that are being written"
        entry.users += 1
        self.entries.move_to_end(entry.key)

    def release(self, entry: ResidentAdapter) -> None:
        assert entry.users > 0
        entry.users -= 1
        self.entries.move_to_end(entry.key)

    def make_room(self, pages: int, may_evict: Callable[[AdapterKey], bool]) -> bool:
        """Evict unused adapters, least recently used first, until `pages` are free.

        Evicts nothing and answers False where even that would not be enough.
        """
        missing = pages - self.pool.free_pages
        if missing <= 0:
            return True
        victims = []
        for entry in self.entries.values():
            if entry.users or entry.is_loading or not may_evict(entry.key):
                continue
            victims.append(entry)
            missing -= len(entry.pages)
            if missing <= 0:
                for victim in victims:
                    self._drop(victim)
                return True
        return False

    def _drop(self, entry: ResidentAdapter) -> None:
        del self.entries[entry.key]
        self.resident_pages -= len(entry.pages)
        self.pool.give_back(entry.pages)
