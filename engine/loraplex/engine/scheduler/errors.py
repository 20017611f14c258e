"""Requests that are refused when they arrive."""

from loraplex.engine.protocol.errors import DomainError, InvalidRequest, Kind

__all__ = ["DuplicateRequest", "InvalidRequest"]


class DuplicateRequest(DomainError):
    """A live request already has this id."""

    kind, code = Kind.CONFLICT, "duplicate_request"
