"""What a worker says of itself: what it is, what it can hold, and what it holds and does now."""

from enum import StrEnum

import msgspec

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.identity import Digest


class Role(StrEnum):
    UNIFIED = "unified"
    PREFILL = "prefill"
    DECODE = "decode"


class WorkerLimits(msgspec.Struct, frozen=True):
    """What a worker can ever hold; a request beyond it is refused before it is sent."""

    max_model_tokens: int
    pool_tokens: int
    """Tokens of KV that the whole page pool could hold with no adapter in it."""
    block_tokens: int
    page_bytes: int
    pool_pages: int
    max_running_requests: int


class Tier(StrEnum):
    """Where an adapter can lie, the nearest first."""

    DEVICE = "device"
    """Pages of the engine's pool."""
    HOST = "host"
    """Packed in host memory."""
    DISK = "disk"
    """A file in the node's cache."""
    STORE = "store"
    """The object store."""


class TierLoad(msgspec.Struct, frozen=True):
    """What one tier has done since the worker began, and what it holds now.

    A `hit` was found here, a `miss` had to be asked of the next tier. `load_seconds` were spent on
    bringing adapters here, or of the store on fetching them; `joins` are those who waited for a
    load that somebody else had begun. Evictions are this worker's own, also where a tier is shared.
    """

    tier: Tier
    hits: int = 0
    misses: int = 0
    bytes: int = 0
    budget_bytes: int = 0
    evictions: int = 0
    load_seconds: float = 0.0
    joins: int = 0
    corrupt: int = 0
    """Files put aside since their bytes were not those of their digest."""


class WorkerLoad(msgspec.Struct, frozen=True):
    """A worker's state at one moment, for routing and for operators."""

    running_requests: int
    waiting_requests: int
    free_pages: int
    kv_pages: int
    adapter_pages: int
    resident_adapters: int
    prompt_tokens: int
    """Prompt tokens computed since the worker began."""
    output_tokens: int
    """Tokens sampled since the worker began."""
    preemptions: int
    adapter_loads: int
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache since the worker began."""
    cached_pages: int = 0
    """Blocks that nobody uses and that may be hit; they count neither as free nor as kv."""
    stalls: int = 0
    """Times that requests waited while nothing ran or loaded: each is a defect."""
    tiers: tuple[TierLoad, ...] = ()


TOLD_ADAPTERS = 32
"""As many digests as a heartbeat lists, of each kind: they become one label's value."""


class AdaptersInUse(msgspec.Struct, frozen=True):
    """Digests of adapters that running requests use and that waiting ones wait for; some of them,
    where there are more than TOLD_ADAPTERS."""

    running: tuple[Digest, ...] = ()
    waiting: tuple[Digest, ...] = ()


class ProcessUse(msgspec.Struct, frozen=True):
    """What a worker process takes of its machine."""

    cpu_seconds: float
    """Since it began, in user and system mode."""
    resident_bytes: int
    open_files: int
    started_at: float
    """Unix time."""


class WantedAdapters(msgspec.Struct, frozen=True):
    """What a worker is to have near, told with its lease (as JSON). `revision` names the list.

    Pinned adapters stay in the pool once loaded; expected ones are brought near, the first first.
    """

    revision: str
    pinned: list[AdapterRef]
    expected: list[AdapterRef]


class WorkerRegistration(msgspec.Struct, frozen=True):
    """What a worker announces to the control plane's internal listener (as JSON)."""

    worker_id: str
    incarnation: str
    protocol_version: int
    pool: str
    role: Role
    base_name: str
    base_digest: Digest
    requests_endpoint: str
    events_endpoint: str
    curve_public_key: str
    """Z85 text of the worker's CURVE public key, made anew by each incarnation."""
    process_id: int
    limits: WorkerLimits
