"""Adapters on their way into the pool, and the requests parked until they arrive."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from loraplex.engine.lora.layout import AdapterLayout, make_tables, plan_layout
from loraplex.engine.lora.loader import AdapterLoader, LoadJob
from loraplex.engine.lora.modules import ModuleNumbers
from loraplex.engine.memory.residency import AdapterKey, AdapterResidency, key_of
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.request import Request
from loraplex.engine.scheduler.adapter_line import AdapterLine
from loraplex.engine.scheduler.room import Room

LOADS_LIMIT: Final = 4
"""Loads at once: more would reserve pages long before a loader thread can fill them."""

_LAYOUTS_KEPT: Final = 128


class Layouts:
    """Packing plans of adapters; those used last are kept, since a plan takes milliseconds.

    Each tenant's own, though equal digests have equal plans: time tells what is kept.
    """

    def __init__(self, numbers: ModuleNumbers, page_elements: int, tile_rank: int) -> None:
        self._numbers = numbers
        self._page_elements = page_elements
        self._tile_rank = tile_rank
        self._kept: OrderedDict[AdapterKey, AdapterLayout] = OrderedDict()
        self.largest_pages = 0
        """Of the largest adapter that was ever asked for."""

    def of(self, ref: AdapterRef) -> AdapterLayout:
        """Raises AdapterUnavailable where the adapter does not fit the base."""
        key = key_of(ref)
        layout = self._kept.get(key)
        if layout is None:
            layout = plan_layout(ref.spec, self._numbers, self._page_elements, self._tile_rank)
            self._kept[key] = layout
            self.largest_pages = max(self.largest_pages, layout.pages)
            if len(self._kept) > _LAYOUTS_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return layout


@dataclass(slots=True)
class EndedLoads:
    """Requests whose adapter has arrived, and those whose adapter could not be had."""

    ready: list[Request] = field(default_factory=list)
    failed: list[tuple[Request, DomainError]] = field(default_factory=list)
    has_any: bool = False
    """Also where nobody waits for it any more: it made room, or can be evicted."""


class AdapterLoads:
    """Starts loads, once an adapter at a time, and collects the requests that wait for them."""

    def __init__(
        self,
        room: Room,
        residency: AdapterResidency,
        loader: AdapterLoader,
        layouts: Layouts,
        modules: int,
    ) -> None:
        self.line = AdapterLine()
        self._room = room
        self._residency = residency
        self._loader = loader
        self._layouts = layouts
        self._modules = modules

    @property
    def is_busy(self) -> bool:
        return self._residency.loads_in_flight >= LOADS_LIMIT

    @property
    def are_coming(self) -> bool:
        """Whether a load is under way, or an adapter that somebody waits for comes nearer."""
        return bool(self._residency.loads_in_flight) or self.line.has_away

    @property
    def have_landed(self) -> bool:
        """Whether a load that has just begun is over, so that its requests may start at once."""
        return self._loader.have_ended

    def pages_of(self, ref: AdapterRef) -> int:
        return self._layouts.of(ref).pages

    def park(self, request: Request) -> None:
        """Have a request wait for its adapter, which is brought near before it takes pages."""
        ref = request.message.adapter
        assert ref is not None, "a base request waits for no adapter"
        key = key_of(ref)
        is_near = self._residency.get(key) is not None or self._loader.arrivals.ask(
            key, self._loader.sourced(ref, self._layouts.of(ref))
        )
        self.line.park(request, is_near=is_near)

    def foretell(self, ref: AdapterRef) -> None:
        """Somebody may want this adapter soon. Raises AdapterUnavailable where nobody can."""
        key = key_of(ref)
        if self._residency.get(key) is None:
            adapter = self._loader.sourced(ref, self._layouts.of(ref))
            self._loader.arrivals.foretell(key, adapter)

    def begin(self, ref: AdapterRef, *, overdue: bool) -> bool:
        """Reserve all pages and start; False, and nothing changed, where there is no room."""
        layout = self._layouts.of(ref)
        if not self._room.for_load(layout.pages, overdue=overdue):
            return False
        page_elements = self._residency.pool.page_elements
        entry = self._residency.reserve(
            key_of(ref),
            layout,
            lambda pages: make_tables(layout, pages, page_elements, self._modules),
        )
        self._loader.submit(LoadJob(entry.key, ref, layout, entry.pages))
        return True

    def collect(self) -> EndedLoads:
        """What has ended since the last call."""
        ended = EndedLoads()
        for arrival in self._loader.arrivals.collect():
            ended.has_any = True
            if arrival.error is None:
                self.line.arrived(arrival.key)
            else:
                requests = self.line.take(arrival.key)
                ended.failed += [(request, arrival.error) for request in requests]
        for result in self._loader.collect():
            ended.has_any = True
            self._residency.finish_load(result.key, has_failed=result.error is not None)
            requests = self.line.take(result.key)
            if result.error is not None:
                ended.failed += [(request, result.error) for request in requests]
            elif requests:
                ended.ready += requests
                self._room.arrived(result.key)
        return ended
