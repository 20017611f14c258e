"""What ended requests used, kept until their bill is written; bounded in number and in age."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from loraplex.engine.protocol.generation import FinalCounts

KEPT_SECONDS = 3600.0
"""Longer than a gateway tries to write a bill, and than another needs to notice that it is gone."""
KEPT_REQUESTS = 200_000
"""Some 60 MB. Acknowledgements come within milliseconds, so only an outage comes near."""


class KeptCounts:
    """Belongs to the engine thread. What is kept too long, or is too much, goes oldest first."""

    def __init__(
        self,
        *,
        kept_seconds: float = KEPT_SECONDS,
        kept_requests: int = KEPT_REQUESTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kept_seconds = kept_seconds
        self._kept_requests = kept_requests
        self._clock = clock
        self._counts: OrderedDict[str, tuple[float, FinalCounts]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def keep(self, counts: FinalCounts) -> None:
        """Take over the counts of a request that has just ended."""
        self._counts[counts.request_id] = (self._clock(), counts)
        self._counts.move_to_end(counts.request_id)
        self._forget_old()

    def find(self, request_ids: Iterable[str]) -> list[FinalCounts]:
        """The counts of those that have ended here and are not acknowledged."""
        self._forget_old()
        return [self._counts[one][1] for one in request_ids if one in self._counts]

    def acknowledge(self, request_ids: Iterable[str]) -> None:
        """Forget these; whom nobody knows, nobody misses."""
        for one in request_ids:
            self._counts.pop(one, None)

    def _forget_old(self) -> None:
        too_old = self._clock() - self._kept_seconds
        while self._counts:
            oldest, (ended_at, _) = next(iter(self._counts.items()))
            if ended_at >= too_old and len(self._counts) <= self._kept_requests:
                return
            del self._counts[oldest]
