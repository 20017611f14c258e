"""What is generated: a request of one sequence, what a step adds to it, how it ends and counts."""

from enum import IntEnum, StrEnum
from typing import Self

import msgspec

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import ENGINE_ERRORS, DomainError, EngineFailure
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.sampling import SamplingParams


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


class FinalCounts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one request used in all, on this worker; `prompt_tokens` include `cached_tokens`."""

    request_id: str
    attempt: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    finish_reason: FinishReason
