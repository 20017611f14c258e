"""Requests that are refused when they arrive."""

from loraplex.engine.protocol.errors import DomainError, Kind


class InvalidRequest(DomainError):
    """The request asks for something no engine could do, such as a token that does not exist."""

    kind, code = Kind.INVALID, "invalid_engine_request"


class DuplicateRequest(DomainError):
    """A live request already has this id."""

    kind, code = Kind.CONFLICT, "duplicate_request"
