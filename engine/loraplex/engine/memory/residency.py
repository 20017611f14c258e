"""Which adapters are in the pool, who uses them, and which of the unused are worth least."""

import time
from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from loraplex.engine.lora.layout import AdapterLayout, AdapterTables
from loraplex.engine.memory.pool import PageId, PagePool
from loraplex.engine.memory.usage import AdapterKey, UsageHistory, key_of
from loraplex.engine.memory.value import ValueScale
from loraplex.engine.protocol.workers import Tier, TierLoad

__all__ = ["AdapterKey", "AdapterResidency", "ResidentAdapter", "key_of"]

_BY_VALUE = attrgetter("order")


@dataclass(slots=True, eq=False)
class ResidentAdapter:
    """An adapter's pages. While `is_loading` they belong to the load and no step may read them."""

    key: AdapterKey
    pages: list[PageId]
    tables: AdapterTables
    number: int
    """No other of this engine ever had it."""
    is_loading: bool = True
    has_served: bool = False
    users: int = 0
    """Running requests; while there are any, the pages stay."""
    reserved_at: float = 0.0
    idle_floor: float = 0.0
    """The scale's floor when its last user left."""
    order: tuple[float, int] = (0.0, 0)
    """Its value while idle, and the turn in which it was set."""

    @property
    def value(self) -> float:
        return self.order[0]


@dataclass(slots=True)
class AdapterResidency:
    """The residency table. `clock` gives seconds and times loads."""

    pool: PagePool
    scale: ValueScale = field(default_factory=ValueScale)
    clock: Callable[[], float] = time.monotonic
    entries: dict[AdapterKey, ResidentAdapter] = field(default_factory=dict)
    resident_pages: int = 0
    """Pages of all entries, those of loads in flight included."""
    idle_pages: int = 0
    """Pages of adapters that nobody uses, loads or has pinned."""
    loads_in_flight: int = 0
    loads: int = 0
    """Loads that succeeded since the engine began."""
    evictions: int = 0
    hits: int = 0
    """Requests that ran without a load of their own."""
    load_seconds: float = 0.0
    """Of all loads that succeeded, from the reservation of their pages on."""
    _idle: OrderedDict[AdapterKey, ResidentAdapter] = field(default_factory=OrderedDict)
    """By the turn in which their value was set."""
    _idle_by_value: list[ResidentAdapter] = field(default_factory=list)
    _pinned: set[AdapterKey] = field(default_factory=set)
    _history: UsageHistory = field(default_factory=UsageHistory)
    _turns: int = 0
    _reservations: int = 0

    @property
    def resident_adapters(self) -> int:
        """Adapters whose load has ended."""
        return len(self.entries) - self.loads_in_flight

    def load(self) -> TierLoad:
        """What the pool has done as the first of the tiers where adapters lie."""
        page_bytes = self.pool.page_elements * self.pool.data.itemsize
        return TierLoad(
            tier=Tier.DEVICE,
            hits=self.hits,
            misses=self.loads,
            bytes=self.resident_pages * page_bytes,
            budget_bytes=self.pool.pages * page_bytes,
            evictions=self.evictions,
            load_seconds=self.load_seconds,
        )

    def get(self, key: AdapterKey) -> ResidentAdapter | None:
        return self.entries.get(key)

    def loads_of(self, key: AdapterKey) -> int:
        """Loads of one adapter that succeeded; 0 where it has not been heard of for long."""
        return self._history.loads_of(key)

    def pin(self, key: AdapterKey) -> None:
        """Keep an adapter once it is loaded, whatever room others need. Pinning twice is once."""
        self._pinned.add(key)
        entry = self._idle.get(key)
        if entry is not None:
            self._leave_idle(entry)

    def unpin(self, key: AdapterKey) -> None:
        if key not in self._pinned:
            return
        self._pinned.remove(key)
        entry = self.entries.get(key)
        if entry is not None:
            self._enter_idle_if_unused(entry)

    def is_pinned(self, key: AdapterKey) -> bool:
        return key in self._pinned

    def reserve(
        self,
        key: AdapterKey,
        layout: AdapterLayout,
        tables: Callable[[list[PageId]], AdapterTables],
    ) -> ResidentAdapter:
        """Take all pages of a load before it starts; there are enough free ones."""
        assert key not in self.entries, "an adapter is loaded once at a time"
        pages = self.pool.take(layout.pages)
        self._reservations += 1
        entry = ResidentAdapter(
            key, pages, tables(pages), self._reservations, reserved_at=self.clock()
        )
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
        seconds = self.clock() - entry.reserved_at
        self.load_seconds += seconds
        self._history.record_load(key, seconds, len(entry.pages))
        self._enter_idle_if_unused(entry)

    def acquire(self, entry: ResidentAdapter) -> None:
        """One more request uses it."""
        assert not entry.is_loading, "no step reads pages that are being written"
        if entry.key in self._idle:
            self._leave_idle(entry)
        entry.users += 1
        self.hits += entry.has_served
        entry.has_served = True
        self._history.record_use(entry.key)
        if self._idle:
            # Uses fade with every use of another; one adapter a turn is enough to keep up.
            stalest = next(iter(self._idle.values()))
            self._leave_idle(stalest)
            self._enter_idle(stalest)

    def release(self, entry: ResidentAdapter) -> None:
        assert entry.users > 0
        entry.users -= 1
        self._enter_idle_if_unused(entry)

    def idle_by_value(self, may_evict: Callable[[AdapterKey], bool]) -> Iterator[ResidentAdapter]:
        """Adapters that could leave, the least valuable first; evicting while iterating is fine."""
        return (entry for entry in self._idle_by_value.copy() if may_evict(entry.key))

    def evict(self, entry: ResidentAdapter) -> None:
        """Free the pages of an idle adapter."""
        assert entry.key in self._idle, (
            "an adapter that is used, loading or pinned is never evicted"
        )
        self._leave_idle(entry)
        self._drop(entry)
        self.evictions += 1
        self.scale.evicted(entry.value)

    def _enter_idle_if_unused(self, entry: ResidentAdapter) -> None:
        if not (entry.users or entry.is_loading or entry.key in self._pinned):
            entry.idle_floor = self.scale.floor
            self._enter_idle(entry)

    def _enter_idle(self, entry: ResidentAdapter) -> None:
        pages, usage = len(entry.pages), self._history.of(entry.key)
        worth = self.scale.adapter_worth(
            self._history.recent_uses(entry.key), usage.load_seconds, pages
        )
        self._turns += 1
        entry.order = (entry.idle_floor + worth, self._turns)
        insort(self._idle_by_value, entry, key=_BY_VALUE)
        self._idle[entry.key] = entry
        self.idle_pages += pages

    def _leave_idle(self, entry: ResidentAdapter) -> None:
        del self._idle[entry.key]
        del self._idle_by_value[bisect_left(self._idle_by_value, entry.order, key=_BY_VALUE)]
        self.idle_pages -= len(entry.pages)

    def _drop(self, entry: ResidentAdapter) -> None:
        del self.entries[entry.key]
        self.resident_pages -= len(entry.pages)
        self.pool.give_back(entry.pages)

    def check(self, users: Counter[AdapterKey]) -> None:
        """Assert that every entry has the users that `users` counts, and every count agrees."""
        entries = list(self.entries.values())
        assert set(users) <= set(self.entries), "a request uses an adapter that is not resident"
        for entry in entries:
            assert entry.users == users[entry.key], (
                f"an adapter has {entry.users} references and {users[entry.key]} users"
            )
            assert not (entry.is_loading and entry.users)
        idle = [e for e in entries if not (e.users or e.is_loading or e.key in self._pinned)]
        assert self._idle == {entry.key: entry for entry in idle}
        assert self._idle_by_value == sorted(idle, key=_BY_VALUE)
        assert self.idle_pages == sum(len(entry.pages) for entry in idle)
        assert self.resident_pages == sum(len(entry.pages) for entry in entries)
        assert self.loads_in_flight == sum(entry.is_loading for entry in entries)
