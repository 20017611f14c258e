"""Refusals of the page pool."""

from loraplex.engine.protocol.errors import DomainError, Kind


class PoolTooSmall(DomainError):
    """The pool's budget or its page cannot hold what the model needs at least."""

    kind, code = Kind.INVALID, "pool_too_small"
