"""A worker as one gateway sees it, for operators."""

from dataclasses import dataclass, field
from enum import StrEnum

from loraplex.engine.protocol.workers import (
    AdaptersInUse,
    ProcessUse,
    Role,
    WorkerLimits,
    WorkerLoad,
)


class WorkerState(StrEnum):
    CONNECTING = "connecting"
    """Registered; the handshake is not done."""
    LIVE = "live"
    LOST = "lost"
    """Silent, disconnected, or its step counter stands still."""


@dataclass(frozen=True)
class WorkerView:
    """`in_flight` counts this gateway's requests; `load` is the last heartbeat's, if any."""

    id: str
    pool: str
    role: Role
    base_name: str
    state: WorkerState
    is_accepting: bool
    """False once the worker is shutting down."""
    incarnation: str
    process_id: int
    limits: WorkerLimits
    load: WorkerLoad | None
    in_flight: int
    adapters: AdaptersInUse = field(default_factory=AdaptersInUse)
    process: ProcessUse | None = None
