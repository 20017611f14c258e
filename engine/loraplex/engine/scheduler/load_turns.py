"""Whose adapter is loaded next: in fair order, and room is made for one that has aged."""

from typing import Final

from loraplex.engine.memory.residency import AdapterKey, AdapterResidency, key_of
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.request import Request
from loraplex.engine.scheduler.aging import Drain, begin_drain
from loraplex.engine.scheduler.charges import load_cost
from loraplex.engine.scheduler.loads import AdapterLoads
from loraplex.engine.scheduler.room import Room
from loraplex.engine.scheduler.rows import RunningRows

_SCAN_LIMIT: Final = 16
"""Adapters looked at behind those that find no room, so that a step's cost stays bounded."""


class LoadTurns:
    """An adapter that finds no room is overtaken; when it has been for too long, others drain."""

    def __init__(
        self, loads: AdapterLoads, room: Room, residency: AdapterResidency, rows: RunningRows
    ) -> None:
        self._loads = loads
        self._line = loads.line
        self._room = room
        self._residency = residency
        self._rows = rows
        self._drain: Drain | None = None

    def holds_back(self, key: AdapterKey | None) -> bool:
        """Whether requests of this adapter shall not start, so that it becomes idle."""
        return self._drain is not None and key in self._drain.adapters

    def held_pages(self) -> int:
        """Pages to be left over for the adapter that has aged."""
        return 0 if self._drain is None else self._drain.held_pages(self._residency)

    def reconsider(self) -> None:
        """Pins have changed: other adapters than those held back may have to make room."""
        self._drain = None

    def take(self, step: int, *, anybody_runs: bool) -> None:
        """Begin the loads that there is room for, and charge their tenants."""
        if self._line.is_empty:
            self._drain = None
            return
        self._load_aged()
        # With nobody running there is nobody to wait for.
        spare_pages = self._spare_pages() if anybody_runs else 0
        deferred: list[Request] = []
        while len(deferred) < _SCAN_LIMIT and not self._loads.is_busy:
            ticket = self._line.next_ticket()
            if ticket is None:
                break
            ref = _ref(ticket)
            if self._residency.get(key_of(ref)) is not None:
                continue  # its load is on its way
            pages = self._loads.pages_of(ref)
            has_room = self._room.available_pages >= pages + spare_pages
            if has_room and self._load(ticket, overdue=False):
                continue
            deferred.append(ticket)
            if self._line.found_no_room(ticket, step) and self._drain is None:
                available = self._room.available_pages
                ticket.is_overdue = True
                self._drain = begin_drain(ticket, pages, available, self._residency)
        self._line.put_back(deferred)

    def _spare_pages(self) -> int:
        """Left over for those who run, lest one be preempted at once, and for who has aged."""
        return self._rows.growing() + self.held_pages()

    def _load_aged(self) -> None:
        """Load what others hold back for, if it fits by now."""
        if self._drain is None:
            return
        ticket, key = self._drain.ticket, key_of(_ref(self._drain.ticket))
        is_over = key not in self._line or self._residency.get(key) is not None
        if is_over or (not self._loads.is_busy and self._load(ticket, overdue=True)):
            self._drain = None

    def _load(self, ticket: Request, *, overdue: bool) -> bool:
        ref = _ref(ticket)
        if not self._loads.begin(ref, overdue=overdue):
            return False
        self._line.began(ticket)
        ticket.account.charge(load_cost(self._loads.pages_of(ref), self._rows.block_tokens))
        return True


def _ref(ticket: Request) -> AdapterRef:
    assert ticket.message.adapter is not None, "a base request waits for no adapter"
    return ticket.message.adapter
