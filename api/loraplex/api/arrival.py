"""A request's id, and when it came: one id for its answer, its log lines and its ledger row."""

from dataclasses import dataclass
from time import monotonic
from uuid import uuid4

from starlette.requests import Request
from starlette.types import Scope

STATE = "state"
REQUEST_ID = "request_id"


@dataclass(frozen=True, slots=True)
class Arrival:
    """`at` is when the body had been read, by the monotonic clock: a slow client is no delay."""

    request_id: str
    at: float


def name_request(scope: Scope) -> str:
    """Give a request its id, at the edge."""
    request_id = uuid4().hex
    scope.setdefault(STATE, {})[REQUEST_ID] = request_id
    return request_id


def arrival_of(request: Request) -> Arrival:
    """Of a request whose body has just been read."""
    return Arrival(getattr(request.state, REQUEST_ID), monotonic())
