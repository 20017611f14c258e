"""The bodies of the switches' routes on the wire."""

from datetime import datetime
from typing import Annotated

from pydantic import StringConstraints

from loraplex.api.schemas import WireModel

Reason = Annotated[str, StringConstraints(min_length=1, max_length=500)]


class SwitchOrder(WireModel):
    is_on: bool
    reason: Reason
    """Kept with the switch and in the audit log."""


class PoolOrder(WireModel):
    reason: Reason
    """Kept with the switch and in the audit log."""


class Switch(WireModel):
    """What is switched off for everybody, and why."""

    name: str
    """`read_only`, `no_uploads`, or `drain_pool:` and a pool's name."""
    is_on: bool
    reason: str
    """Of the last turn; empty before the first."""
    changed_by: str
    changed_at: datetime


class SwitchList(WireModel):
    data: list[Switch]
    next_cursor: str | None
