"""How a call may end, and what the ledger says of it."""

from loraplex.engine.protocol.errors import DomainError

COMPLETED, CANCELLED, FAILED = "completed", "cancelled", "failed"
INTERNAL_CODE = "internal_error"
"""The `error_code` of a failure that nobody foresaw."""


def code_of(failure: Exception | None) -> str | None:
    """What the ledger says of a failure; None when there was none."""
    if failure is None:
        return None
    return failure.code if isinstance(failure, DomainError) else INTERNAL_CODE
