"""Refusals at the door: the tenant's own limits."""

from loraplex.engine.protocol.errors import DomainError, Kind

RETRY_AFTER_SECONDS = 1


class TooManyConcurrentRequests(DomainError):
    """The tenant runs as many requests as it may; one must end before the next begins."""

    kind, code = Kind.LIMITED, "too_many_concurrent_requests"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"This tenant already runs {limit} requests, as many as it may at once.",
            rule="max_concurrent_requests",
            value=limit,
            retry_after_seconds=RETRY_AFTER_SECONDS,
        )
