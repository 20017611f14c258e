"""Refusals of requests with an Idempotency-Key."""

from loraplex.engine.protocol.errors import DomainError, FixedRefusal, Kind

HEADER = "Idempotency-Key"
MAX_KEY_CHARACTERS = 255


class InvalidIdempotencyKey(FixedRefusal):
    """The header's value is no key. It is not repeated: it may be a secret in the wrong place."""

    kind, code = Kind.INVALID, "invalid_idempotency_key"
    field, rule = HEADER, f"1 to {MAX_KEY_CHARACTERS} visible ASCII characters"
    message = f"`{HEADER}` should be 1 to {MAX_KEY_CHARACTERS} visible ASCII characters."


class IdempotencyKeyReused(FixedRefusal):
    """The key came before with another request."""

    kind, code = Kind.UNPROCESSABLE, "idempotency_key_reused"
    field, rule = HEADER, "one key, one request"
    message = (
        f"This `{HEADER}` was used for another request within the last 24 hours. Send a new "
        "key with a new request, and the old key only with the very same one."
    )


class IdempotentRequestUnderWay(DomainError):
    """The first request with this key has not ended."""

    kind, code = Kind.CONFLICT, "idempotent_request_under_way"
    field, rule = HEADER, "one request at a time"

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__(
            f"The first request with this `{HEADER}` is still under way. Try again to get its "
            "answer.",
            retry_after_seconds=retry_after_seconds,
        )


class IdempotentAnswerNotKept(DomainError):
    """The first request with this key was done; its answer was too large to be kept."""

    kind, code, field = Kind.CONFLICT, "idempotent_answer_not_kept", HEADER

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"The first request with this `{HEADER}` was done, and its answer has more than the "
            f"{limit_bytes} bytes that are kept. It is not done again: send a new key for that.",
            rule=f"an answer of at most {limit_bytes} bytes",
        )
