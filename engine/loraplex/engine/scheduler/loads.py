"""Adapters on their way into the pool, and the requests parked until they arrive."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from loraplex.engine.lora.layout import AdapterLayout, make_tables, plan_layout
from loraplex.engine.lora.loader import AdapterLoader, LoadJob
from loraplex.engine.lora.modules import ModuleNumbers
from loraplex.engine.memory.residency import AdapterKey, AdapterResidency
from loraplex.engine.protocol.adapter import AdapterRef, AdapterSpec
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.protocol.identity import Digest
from loraplex.engine.request import Request, RequestState

LOADS_LIMIT: Final = 4
"""Loads at once: more would reserve pages long before a loader thread can fill them."""

_LAYOUTS_KEPT: Final = 128


class Layouts:
    """Packing plans by digest; those used last are kept, since a plan takes milliseconds."""

    def __init__(self, numbers: ModuleNumbers, page_elements: int, tile_rank: int) -> None:
        self._numbers = numbers
        self._page_elements = page_elements
        self._tile_rank = tile_rank
        self._kept: OrderedDict[Digest, AdapterLayout] = OrderedDict()

    def of(self, spec: AdapterSpec) -> AdapterLayout:
        """Raises AdapterUnavailable where the adapter does not fit the base."""
        layout = self._kept.get(spec.digest)
        if layout is None:
            layout = plan_layout(spec, self._numbers, self._page_elements, self._tile_rank)
            self._kept[spec.digest] = layout
            if len(self._kept) > _LAYOUTS_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(spec.digest)
        return layout


class AdapterLoads:
    """Starts loads, once an adapter at a time, and parks requests with them."""

    def __init__(
        self,
        residency: AdapterResidency,
        loader: AdapterLoader,
        layouts: Layouts,
        modules: int,
    ) -> None:
        self._residency = residency
        self._loader = loader
        self._layouts = layouts
        self._modules = modules
        self._parked: dict[AdapterKey, list[Request]] = {}

    @property
    def is_busy(self) -> bool:
        return self._residency.loads_in_flight >= LOADS_LIMIT

    def begin(
        self, key: AdapterKey, ref: AdapterRef, may_evict: Callable[[AdapterKey], bool]
    ) -> bool:
        """Reserve all pages and start; False, and nothing changed, where there is no room."""
        layout = self._layouts.of(ref.spec)
        if not self._residency.make_room(layout.pages, may_evict):
            return False
        page_elements = self._residency.pool.page_elements
        entry = self._residency.reserve(
            key,
            layout,
            lambda pages: make_tables(layout, pages, page_elements, self._modules),
        )
        self._loader.submit(LoadJob(key, ref, layout, entry.pages))
        return True

    def park(self, key: AdapterKey, request: Request) -> None:
        """Keep a request out of the line until its adapter's load has ended."""
        request.state = RequestState.PARKED
        self._parked.setdefault(key, []).append(request)

    def collect(self) -> tuple[list[Request], list[tuple[Request, DomainError]]]:
        """Requests whose adapter has arrived, and those whose adapter could not be had."""
        ready: list[Request] = []
        failed: list[tuple[Request, DomainError]] = []
        for result in self._loader.collect():
            self._residency.finish_load(result.key, has_failed=result.error is not None)
            for request in self._parked.pop(result.key, []):
                if request.state is not RequestState.PARKED:  # cancelled meanwhile
                    continue
                if result.error is None:
                    ready.append(request)
                else:
                    failed.append((request, result.error))
        return ready, failed
