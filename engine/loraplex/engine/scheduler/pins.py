"""Adapters that stay in the pool once they are loaded, and what that leaves for everybody else."""

from collections.abc import Iterable

from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.memory.residency import AdapterKey, AdapterResidency
from loraplex.engine.protocol.errors import PinLeavesNoRoom


class Pins:
    """A pin counts from when it is granted, whether the adapter is resident yet or not.

    What has been found to fit must go on fitting, so a pin is refused that would take its room, or
    that would leave too little for one more adapter and one more request.
    """

    def __init__(
        self, residency: AdapterResidency, geometry: PageGeometry, max_model_tokens: int
    ) -> None:
        self._residency = residency
        self._pool_pages = geometry.pages
        # Half the pool, where a request as long as the model allows would take more than that.
        self._request_pages = min(geometry.blocks_of(max_model_tokens), geometry.pages // 2)
        self._pages: dict[AdapterKey, int] = {}

    def pages_beside(self, key: AdapterKey | None) -> int:
        """Pages that a request of this adapter can ever have, its adapter's own included."""
        return self._pool_pages - sum(self._pages.values()) + self._pages_of(key)

    def pin(
        self,
        key: AdapterKey,
        pages: int,
        *,
        largest_adapter_pages: int,
        live: Iterable[tuple[AdapterKey | None, int]],
    ) -> None:
        """Grant a pin; raises PinLeavesNoRoom. Pinning twice is once.

        `live` are the requests that have been found to fit: the adapter of each, and the pages
        that it and the request may need together.
        """
        if key in self._pages:
            return
        left = self.pages_beside(None) - pages
        needed = largest_adapter_pages + self._request_pages
        for other, request_pages in live:
            # A pinned adapter's own requests have its pages back.
            own = pages if other == key else self._pages_of(other)
            needed = max(needed, request_pages - own)
        if left < needed:
            raise PinLeavesNoRoom(
                f"The adapter's {pages} pages would leave {left} of the pool's {self._pool_pages} "
                f"to whatever is not pinned; at least {needed} are needed.",
                field="adapter",
                rule=f"at most {max(0, left + pages - needed)} pages",
                value=pages,
            )
        self._pages[key] = pages
        self._residency.pin(key)

    def unpin(self, key: AdapterKey) -> None:
        if self._pages.pop(key, None) is not None:
            self._residency.unpin(key)

    def _pages_of(self, key: AdapterKey | None) -> int:
        return 0 if key is None else self._pages.get(key, 0)
