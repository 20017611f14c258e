"""The root of every refusal: what was wrong, by which rule, which value. Knows nothing of HTTP.

DomainError
 ├─ of the engine       loraplex.engine.protocol.errors (below)
 ├─ of the platform     loraplex.platform.<noun>.errors
 └─ of the registry     loraplex.adapters_registry.errors and .<noun>.errors
"""

from enum import StrEnum
from typing import ClassVar


class Kind(StrEnum):
    """How a caller should react; `api` maps each kind to one HTTP status."""

    INVALID = "invalid"
    TOO_LARGE = "too_large"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    STALE = "stale"
    """The caller's condition does not hold: the thing has changed since it was read."""
    UNCONDITIONAL = "unconditional"
    """The caller must say which state of the thing the change is for."""
    UNPROCESSABLE = "unprocessable"
    """Well-formed, and contradicts what the caller said before."""
    LIMITED = "limited"
    EXHAUSTED = "exhausted"
    """Limited until somebody changes something: trying again is in vain."""
    OVERLOADED = "overloaded"


class DomainError(Exception):
    """A refusal a caller can act on.

    `message` is a sentence for a person, `field` the input it speaks of, `rule` what was asked
    of it and `value` what was found; secrets never appear in any of them. A class declares what is
    the same each time; what is not is given when one is raised.
    """

    kind: ClassVar[Kind]
    code: ClassVar[str]
    message: str
    field: str | None = None
    rule: str | None = None
    value: str | int | float | None = None
    retry_after_seconds: int | None = None

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        rule: str | None = None,
        value: str | int | float | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = self.field if field is None else field
        self.rule = self.rule if rule is None else rule
        self.value = self.value if value is None else value
        if retry_after_seconds is not None:
            self.retry_after_seconds = retry_after_seconds


class FixedRefusal(DomainError):
    """A refusal that is the same each time: all of it is declared."""

    def __init__(self) -> None:
        super().__init__(self.message)


class InvalidRequest(DomainError):
    """The request asks for something no engine could do, such as a token that does not exist."""

    kind, code = Kind.INVALID, "invalid_engine_request"


class PromptTooLong(DomainError):
    """The prompt and the tokens asked for can never fit the model or the page pool."""

    kind, code = Kind.INVALID, "context_length_exceeded"


class AdapterTooLarge(DomainError):
    """The adapter needs more pages than the whole pool has."""

    kind, code = Kind.INVALID, "adapter_too_large"


class PinLeavesNoRoom(DomainError):
    """With this adapter pinned, too few pages would be left for what is not pinned."""

    kind, code = Kind.CONFLICT, "pin_leaves_no_room"


class AdapterUnavailable(DomainError):
    """The adapter's weights could not be had; the request ends rather than run on the bare base."""

    kind, code = Kind.OVERLOADED, "adapter_unavailable"


class TransferBroke(AdapterUnavailable):
    """A file that was read while it came was given up; it may be had another way."""


class WorkerLost(DomainError):
    """The worker that ran the request died or fell silent."""

    kind, code = Kind.OVERLOADED, "worker_lost"


class NoWorkerAvailable(DomainError):
    """No live worker serves this base model right now."""

    kind, code = Kind.OVERLOADED, "no_worker_available"


class EngineFailure(DomainError):
    """A step of the engine failed; the request's output so far is all there is."""

    kind, code = Kind.OVERLOADED, "engine_failure"


class UnsupportedModel(DomainError):
    """The base model's architecture or configuration is not served."""

    kind, code = Kind.INVALID, "unsupported_model"


ENGINE_ERRORS: dict[str, type[DomainError]] = {
    error.code: error
    for error in (
        InvalidRequest,
        PromptTooLong,
        AdapterTooLarge,
        PinLeavesNoRoom,
        AdapterUnavailable,
        WorkerLost,
        NoWorkerAvailable,
        EngineFailure,
        UnsupportedModel,
    )
}
"""The engine's errors by code, as they travel between processes."""
