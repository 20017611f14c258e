"""Requests whose adapter is not resident, by adapter: whose load is next, and who has aged."""

from collections.abc import Iterable
from typing import Final

from loraplex.engine.memory.residency import AdapterKey
from loraplex.engine.protocol.generation import Priority
from loraplex.engine.request import Request, RequestState
from loraplex.engine.scheduler.fair_queue import FairQueue

PATIENCE_STEPS: Final = 32
"""Steps for which others may overtake an adapter that finds no room."""


class AdapterLine:
    """One place in line an adapter and class, however many requests want it: its oldest ticket.

    They hold no place in the line of requests that could run.
    """

    def __init__(self) -> None:
        self._parked: dict[AdapterKey, dict[Request, None]] = {}
        self._tickets = FairQueue()
        self._ticket_of: dict[tuple[AdapterKey, Priority], Request] = {}
        self._blocked_since: dict[AdapterKey, int] = {}
        self._away: set[AdapterKey] = set()
        """They have no tickets before they are near, so that no turn is lost on them."""

    @property
    def is_empty(self) -> bool:
        return not self._parked

    def keys(self) -> list[AdapterKey]:
        """Adapters that anybody waits for; from any thread."""
        return list(self._parked)

    def __contains__(self, key: AdapterKey) -> bool:
        return key in self._parked

    @property
    def has_away(self) -> bool:
        """Whether anybody waits for an adapter that is not near yet."""
        return bool(self._away)

    def park(self, request: Request, *, is_near: bool = True) -> None:
        """Keep a request out of the other line until its adapter's load has ended."""
        request.state = RequestState.PARKED
        key = _key(request)
        self._parked.setdefault(key, {})[request] = None
        if not is_near:
            self._away.add(key)
        if key not in self._away and (key, request.priority) not in self._ticket_of:
            self._give_ticket(key, request)

    def arrived(self, key: AdapterKey) -> None:
        """It is near: its requests take part in the turns."""
        self._away.discard(key)
        for request in self._parked.get(key, {}):
            if (key, request.priority) not in self._ticket_of:
                self._give_ticket(key, request)

    def leave(self, request: Request) -> None:
        """A parked request has ended; another one takes its ticket."""
        key = _key(request)
        parked = self._parked[key]
        del parked[request]
        if key not in self._away and (
            self._ticket_of.get((key, request.priority), request) is request
        ):
            self._ticket_of.pop((key, request.priority), None)
            heir = next((one for one in parked if one.priority == request.priority), None)
            if heir is not None:
                self._give_ticket(key, heir)
        if not parked:
            self._forget(key)

    def take(self, key: AdapterKey) -> list[Request]:
        """Everybody who waits for an adapter whose load has ended, in the order they came."""
        parked = self._parked.get(key, {})
        if parked:
            self._forget(key)
        return list(parked)

    def next_ticket(self) -> Request | None:
        """Take out the ticket that is next."""
        while (ticket := self._tickets.pop()) is not None:
            place = (_key(ticket), ticket.priority)
            if self._ticket_of.get(place) is ticket:
                del self._ticket_of[place]
                return ticket
        return None

    def put_back(self, tickets: Iterable[Request]) -> None:
        for ticket in tickets:
            self._give_ticket(_key(ticket), ticket)

    def began(self, ticket: Request) -> None:
        """The load has begun: its requests are parked until it ends, and need no ticket."""
        key = _key(ticket)
        self._tickets.started(ticket)
        self._drop_tickets(key)
        self._blocked_since.pop(key, None)

    def found_no_room(self, ticket: Request, step: int) -> bool:
        """Remember since when; whether the adapter has waited for too long by now."""
        return step - self._blocked_since.setdefault(_key(ticket), step) >= PATIENCE_STEPS

    def _give_ticket(self, key: AdapterKey, request: Request) -> None:
        self._ticket_of[key, request.priority] = request
        self._tickets.push(request)

    def _forget(self, key: AdapterKey) -> None:
        del self._parked[key]
        self._away.discard(key)
        self._drop_tickets(key)
        self._blocked_since.pop(key, None)

    def _drop_tickets(self, key: AdapterKey) -> None:
        for priority in Priority:
            self._ticket_of.pop((key, priority), None)


def _key(request: Request) -> AdapterKey:
    assert request.adapter_key is not None, "a base request waits for no adapter"
    return request.adapter_key
