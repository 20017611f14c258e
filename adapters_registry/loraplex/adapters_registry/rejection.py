"""Why an upload is refused: every reason has a code for counting and a sentence for its owner."""

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from loraplex.engine.protocol.errors import DomainError, Kind

MAX_REASONS = 20
MAX_NAMES = 5
"""Names listed in one sentence; the rest are counted."""


class ReasonCode(StrEnum):
    CONFIG_UNREADABLE = "config_unreadable"
    CONFIG_FIELD_INVALID = "config_field_invalid"
    CONFIG_FIELD_UNKNOWN = "config_field_unknown"
    NOT_SERVED = "not_served"
    FILE_KIND = "file_kind"
    FILE_MALFORMED = "file_malformed"
    TENSOR_UNMAPPED = "tensor_unmapped"
    TENSOR_REPEATED = "tensor_repeated"
    PAIR_INCOMPLETE = "pair_incomplete"
    WRONG_BASE_SHAPE = "wrong_base_shape"
    RANK_MISMATCH = "rank_mismatch"
    TARGETS_DISAGREE = "targets_disagree"
    WEIGHTS_NOT_FINITE = "weights_not_finite"
    VALIDATION_LIMIT = "validation_limit"
    """Checking it took more time or memory than an adapter ever needs."""
    VALIDATION_CRASHED = "validation_crashed"
    """Checking it crashed the process that did, more than once and with nothing else in it."""
    VALIDATION_FAILED = "validation_failed"
    """The platform could not finish the check; the upload itself may be fine."""


class RejectionReason(msgspec.Struct, frozen=True):
    """One reason. `field` is a config field or a tensor's or module's name."""

    code: ReasonCode
    message: str
    field: str | None = None


class AdapterRejected(DomainError):
    """The upload cannot be served as PEFT would; `reasons` say all that was found."""

    kind, code = Kind.INVALID, "adapter_rejected"

    def __init__(self, reasons: Iterable[RejectionReason]) -> None:
        self.reasons = tuple(reasons)[:MAX_REASONS]
        first = self.reasons[0]
        super().__init__(first.message, field=first.field)


def reject(code: ReasonCode, message: str, field: str | None = None) -> AdapterRejected:
    """An AdapterRejected of a single reason."""
    return AdapterRejected([RejectionReason(code, message, field)])


def listed(names: Iterable[str]) -> str:
    """`a, b, c and 4 more`."""
    every = list(names)
    shown = ", ".join(shortened(name) for name in every[:MAX_NAMES])
    rest = len(every) - MAX_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown


def shortened(value: object, limit: int = 80) -> str:
    """A value as it may stand in a message: printable, and not longer than `limit`."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(char if char.isprintable() else "�" for char in text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def summarized(reasons: Iterable[RejectionReason]) -> Iterator[RejectionReason]:
    """At most three reasons of a code in full; a wrong base would otherwise list every module."""
    count: dict[ReasonCode, int] = {}
    for reason in reasons:
        count[reason.code] = count.get(reason.code, 0) + 1
        if count[reason.code] <= 3:
            yield reason
    for code, total in count.items():
        if total > 3:
            message = f"{total - 3} more modules have the same fault ({code.value})."
            yield RejectionReason(code, message, None)
