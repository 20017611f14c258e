"""What gateways and workers say to each other: msgspec messages over ZeroMQ with CURVE keys.

A worker binds two sockets. `requests` (ROUTER; gateways connect a DEALER) carries GatewayMessage
in and WorkerMessage out, one frame a message. `events` (PUB; gateways connect a SUB) carries
EventMessage, one frame each: heartbeats now, KV events later.

Every message names the worker's incarnation, because ZeroMQ delivers what was queued for a dead
peer to whoever binds its address next: a message for another incarnation is dropped.

    gateway                            worker
      Hello            ───────────▶
                       ◀───────────    Welcome
      Submit           ───────────▶
                       ◀───────────    StepOutputs (one batch a step and gateway)
      Cancel           ───────────▶                (the request still ends with a finish_reason)
      KeepAlive (1/s)  ───────────▶                (a silent gateway's requests are cancelled)
      Acknowledge      ───────────▶                (the bill of these is written)
      Recount          ───────────▶                (of requests whose own gateway is gone)
                       ◀───────────    Recounted

KeepAlive names every request the gateway still waits for. Messages of one gateway arrive in order,
so both sides can reconcile: the worker cancels what is not named, and fails what it does not know.
Neither a lost Cancel nor a lost last output can leave a request behind.

A worker keeps the final counts of every request, however it ended, until a gateway acknowledges
them, so that the bill of a gateway that died can be written by another one.
"""

from enum import IntEnum, StrEnum
from typing import Self

import msgspec

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import ENGINE_ERRORS, DomainError, EngineFailure
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.engine.protocol.sampling import SamplingParams

PROTOCOL_VERSION = 4
HEARTBEAT_SECONDS = 0.5
SILENCE_SECONDS = 2.0
"""A worker or gateway not heard of for this long is treated as lost."""


class Role(StrEnum):
    UNIFIED = "unified"
    PREFILL = "prefill"
    DECODE = "decode"


class Priority(IntEnum):
    """Whose turn comes first where not everybody can run; the gateway decides, never a client."""

    INTERACTIVE = 0
    STANDARD = 1
    BATCH = 2


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    ERROR = "error"


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


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One sequence to generate. A choice of an `n`-choice call is a request of its own.

    `fair_weight` is the tenant's share of a busy engine beside tenants of weight 1. The first
    `public_prefix_tokens` of the prompt were declared public by an operator: their blocks of the
    base model's KV are stored once for all tenants. Without `use_prefix_cache` the request
    neither finds nor leaves blocks. `attempt` is 1 where a first worker was lost before it had
    given any output. `traceparent` names the span that the worker's are parts of, where anybody
    traces.
    """

    request_id: str
    namespace: TenantNamespace
    prompt_token_ids: list[int]
    sampling: SamplingParams
    adapter: AdapterRef | None = None
    priority: Priority = Priority.STANDARD
    fair_weight: float = 1.0
    public_prefix_tokens: int = 0
    use_prefix_cache: bool = True
    attempt: int = 0
    traceparent: str | None = None


# Gateway to worker


class Hello(msgspec.Struct, frozen=True, tag=True):
    protocol_version: int
    gateway_id: str
    incarnation: str


class Submit(msgspec.Struct, frozen=True, tag=True):
    incarnation: str
    request: GenerationRequest


class Cancel(msgspec.Struct, frozen=True, tag=True):
    incarnation: str
    request_id: str


class KeepAlive(msgspec.Struct, frozen=True, tag=True):
    incarnation: str
    request_ids: list[str]
    """Everything submitted and not yet finished, as the gateway knows it."""


class Foretell(msgspec.Struct, frozen=True, tag=True):
    """Requests for these adapters may come soon; nothing is promised, and nothing answered."""

    incarnation: str
    adapters: list[AdapterRef]


class Acknowledge(msgspec.Struct, frozen=True, tag=True):
    """The bill of these requests is written: their counts need not be kept any more."""

    incarnation: str
    request_ids: list[str]


class Recount(msgspec.Struct, frozen=True, tag=True):
    """What became of these requests, of any gateway? `question` comes back with the answer."""

    incarnation: str
    question: int
    request_ids: list[str]


GatewayMessage = Hello | Submit | Cancel | KeepAlive | Foretell | Acknowledge | Recount


# Worker to gateway


class Welcome(msgspec.Struct, frozen=True, tag=True):
    protocol_version: int
    incarnation: str
    base_digest: Digest
    limits: WorkerLimits


class TokenLogprob(msgspec.Struct, frozen=True):
    """A sampled token's log-probability and its best alternatives, best first."""

    logprob: float
    top: list[tuple[int, float]]


class RequestFailure(msgspec.Struct, frozen=True):
    """A DomainError on the wire: `code` is the error class's code."""

    code: str
    message: str
    field: str | None = None
    rule: str | None = None
    value: str | int | float | None = None
    retry_after_seconds: int | None = None

    @classmethod
    def of(cls, error: DomainError) -> Self:
        return cls(
            code=error.code,
            message=error.message,
            field=error.field,
            rule=error.rule,
            value=error.value,
            retry_after_seconds=error.retry_after_seconds,
        )

    def to_error(self) -> DomainError:
        """The error that was sent; an unknown code becomes an EngineFailure."""
        error_class = ENGINE_ERRORS.get(self.code, EngineFailure)
        return error_class(
            self.message,
            field=self.field,
            rule=self.rule,
            value=self.value,
            retry_after_seconds=self.retry_after_seconds,
        )


class RequestTiming(msgspec.Struct, frozen=True, gc=False):
    """How a worker spent the time to a request's first token, by its own monotonic clock.

    Durations only: clocks of two processes are never subtracted from one another.
    """

    queue_seconds: float
    """From its arrival to when it was first scheduled; a wait for its adapter is in it."""
    adapter_after_seconds: float
    """When in that wait its adapter was asked for; 0 where the adapter was there."""
    adapter_seconds: float
    """How long it was waited for."""
    prefill_seconds: float
    """From when it was scheduled to its first token."""


class RequestOutput(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one step added to one request.

    `token_ids` are the new tokens, the stop token included. `output_tokens` counts all tokens of
    the request so far, `cached_tokens` those of its prompt that came from the prefix cache. With
    `finish_reason` set this is the request's last output; on `error`, `failure` says why. The
    output with the first token tells the `timing`.
    """

    request_id: str
    token_ids: list[int]
    logprobs: list[TokenLogprob] | None = None
    output_tokens: int
    cached_tokens: int = 0
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    failure: RequestFailure | None = None
    timing: RequestTiming | None = None


class StepOutputs(msgspec.Struct, frozen=True, tag=True):
    incarnation: str
    step: int
    outputs: list[RequestOutput]


class FinalCounts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one request used in all, on this worker; `prompt_tokens` include `cached_tokens`."""

    request_id: str
    attempt: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    finish_reason: FinishReason


class Recounted(msgspec.Struct, frozen=True, tag=True):
    """Of the requests asked for: those that have ended, and those that still run.

    The others this incarnation has never had, or has had acknowledged, or has kept too long.
    """

    incarnation: str
    question: int
    ended: list[FinalCounts]
    running: list[str]


WorkerMessage = Welcome | StepOutputs | Recounted


# Events


class Heartbeat(msgspec.Struct, frozen=True, tag=True):
    """Sent by a thread of its own every HEARTBEAT_SECONDS, however long a step takes.

    `step` counts finished steps; `step_running_seconds` is how long the current one has run. A
    worker that is shutting down is no longer `accepting` requests.
    """

    incarnation: str
    worker_id: str
    step: int
    step_running_seconds: float
    load: WorkerLoad
    accepting: bool = True
    adapters: AdaptersInUse = AdaptersInUse()
    process: ProcessUse | None = None


EventMessage = Heartbeat
