"""Who loses its pages when a running request must grow and nothing else can leave.

Requests stand in one order for as long as they live: by class, then by the service their tenant
had been promised when they first started, then by arrival. Only the last in this order is ever
preempted, and only for one that stands before it; so of two requests of a class never each in
turn loses its pages to the other, and the first of all always runs to its end.
"""

from collections.abc import Iterable
from typing import Final

from loraplex.engine.protocol.generation import Priority
from loraplex.engine.request import Request, Standing

PREEMPTIONS_LIMIT: Final = 3
"""Preemptions after which a request stands one class higher: also a low class ends some day."""


def first_standing(request: Request) -> Standing:
    account = request.account
    promised = account.service + account.promised * account.share
    return Standing(request.priority, promised, request.arrival)


def last_in_order(running: Iterable[Request]) -> Request:
    return max(running, key=_standing)


def _standing(request: Request) -> Standing:
    assert request.standing is not None, "it has started"
    return request.standing


def count_preemption(request: Request) -> None:
    """A request that loses its pages too often is raised to the class above."""
    request.preemptions += 1
    standing = _standing(request)
    if request.preemptions % PREEMPTIONS_LIMIT == 0 and standing.priority > Priority.INTERACTIVE:
        request.priority = Priority(standing.priority - 1)
        request.standing = standing._replace(priority=request.priority)
