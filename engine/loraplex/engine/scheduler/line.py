"""Requests in line by arrival."""

import heapq

from loraplex.engine.request import Request, RequestState


class WaitingLine:
    """A heap by arrival. Requests that ended while waiting are skipped when they come up."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, Request]] = []

    def push(self, request: Request) -> None:
        request.state = RequestState.WAITING
        heapq.heappush(self._heap, (request.arrival, request))

    def pop(self) -> Request | None:
        """The earliest waiting request, None where nobody waits."""
        while self._heap:
            _, request = heapq.heappop(self._heap)
            if request.state is RequestState.WAITING:
                return request
        return None
