"""The bodies of operators' routes on the wire."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import StringConstraints

from loraplex.api.schemas import WireModel


class TierLoad(WireModel):
    """What one tier of adapters has done since the worker began, and what it holds now."""

    tier: Literal["device", "host", "disk", "store"]
    hits: int
    misses: int
    """Had to be asked of the next tier."""
    bytes: int
    budget_bytes: int
    evictions: int
    load_seconds: float
    joins: int
    """Waited for a load that another request had begun."""
    corrupt: int
    """Files put aside since their bytes were not those of their digest."""


class WorkerLoad(WireModel):
    running_requests: int
    waiting_requests: int
    free_pages: int
    kv_pages: int
    adapter_pages: int
    resident_adapters: int
    prompt_tokens: int
    output_tokens: int
    preemptions: int
    adapter_loads: int
    cached_tokens: int
    """Prompt tokens found in the prefix cache since the worker began."""
    cached_pages: int
    """Pages of blocks that nobody uses and that may be hit."""
    stalls: int
    """Times that requests waited while nothing ran or loaded."""
    tiers: list[TierLoad]
    """Where adapters lie, the nearest first."""


class Worker(WireModel):
    """A worker as this gateway sees it; `load` is from its last heartbeat."""

    id: str
    pool: str
    role: str
    base: str
    state: Literal["live", "lost", "connecting"]
    is_accepting: bool
    is_drained: bool
    """No new requests go to its pool, at an operator's word."""
    incarnation: str
    process_id: int
    in_flight: int
    pool_pages: int
    page_bytes: int
    load: WorkerLoad | None


class WorkerList(WireModel):
    data: list[Worker]


class QuarantineOrder(WireModel):
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    """Shown to the tenant and sent with the event."""


class Tenant(WireModel):
    id: str
    name: str
    state: str
    max_concurrent_requests: int
    created_at: datetime


class TenantList(WireModel):
    data: list[Tenant]
    next_cursor: str | None
