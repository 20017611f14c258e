"""Who is next in line: the overdue, then by class, the tenant with least service, arrival."""

import heapq
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Final

from loraplex.engine.protocol.generation import Priority
from loraplex.engine.request import Request, RequestState
from loraplex.engine.scheduler.accounts import TenantAccount

OVERTAKES_LIMIT: Final = 16
"""Starts of higher classes that one in a lower class may see before the lower class is next."""


class FairQueue:
    """Waiting requests. Taking the next one costs O(log tenants), however many wait.

    Requests that ended in line are skipped when they come up. A higher class goes first, until
    `OVERTAKES_LIMIT` of its requests have started before the lower class's next one.
    """

    def __init__(self) -> None:
        self._lines = {priority: _TenantLines() for priority in Priority}
        self._overtaken = dict.fromkeys(Priority, 0)
        self._overdue: deque[Request] = deque()

    def push(self, request: Request) -> None:
        if request.is_overdue:
            self._overdue.append(request)
        else:
            self._lines[request.priority].push(request)

    def pop(self) -> Request | None:
        """Take out the request that is next, None where nobody waits."""
        while self._overdue:
            request = self._overdue.popleft()
            if request.state is not RequestState.ENDED:
                return request
        for priority in self._due():
            if self._lines[priority].peek() is not None:
                return self._lines[priority].pop()
        return None

    def started(self, request: Request) -> None:
        """The request was taken for good: lower classes that still wait were overtaken."""
        self._overtaken[request.priority] = 0
        for priority, line in self._lines.items():
            if priority > request.priority:
                waits = line.peek() is not None
                self._overtaken[priority] = self._overtaken[priority] + 1 if waits else 0

    def _due(self) -> Iterator[Priority]:
        """Classes in the order of their turn."""
        overdue = [p for p in Priority if self._overtaken[p] >= OVERTAKES_LIMIT]
        yield from sorted(overdue, key=lambda p: -self._overtaken[p])
        yield from Priority


class _TenantLines:
    """One class: a heap of tenants by service, and of each tenant a heap by arrival."""

    def __init__(self) -> None:
        self._tenants: list[tuple[float, int, TenantAccount]] = []
        self._requests: dict[TenantAccount, list[tuple[int, Request]]] = {}
        self._turns = count()

    def push(self, request: Request) -> None:
        account = request.account
        line = self._requests.get(account)
        if line is None:
            self._requests[account] = [(request.arrival, request)]
            heapq.heappush(self._tenants, (account.service, next(self._turns), account))
        else:
            heapq.heappush(line, (request.arrival, request))

    def peek(self) -> Request | None:
        while self._tenants:
            service, turn, account = self._tenants[0]
            line = self._requests[account]
            while line and line[0][1].state is RequestState.ENDED:
                heapq.heappop(line)
            if not line:
                heapq.heappop(self._tenants)
                del self._requests[account]
            elif account.service > service:  # it was served since it came up last
                heapq.heapreplace(self._tenants, (account.service, turn, account))
            else:
                return line[0][1]
        return None

    def pop(self) -> Request:
        request = self.peek()
        assert request is not None, "nobody waits"
        heapq.heappop(self._requests[request.account])
        return request
