"""Why an address was not called, or what was wrong with its answer.

They name the host alone: the rest of an address may hold a signature or a token.
"""

from loraplex.engine.protocol.errors import DomainError, Kind

SHOWN_CHARACTERS = 253


class AddressInvalid(DomainError):
    """The address is not one that is ever called: its scheme, port, spelling or credentials."""

    kind, code, field = Kind.INVALID, "outbound_address_invalid", "url"

    def __init__(self, message: str, *, rule: str, value: str | int | None = None) -> None:
        shown = value[:SHOWN_CHARACTERS] if isinstance(value, str) else value
        super().__init__(message, rule=rule, value=shown)


class AddressNotPublic(DomainError):
    """The host is inside a network that is not the internet. Which address it has is not told."""

    kind, code = Kind.INVALID, "outbound_address_not_public"
    field, rule = "url", "a host whose every address is public"

    def __init__(self, host: str) -> None:
        shown = host[:SHOWN_CHARACTERS]
        message = f"{shown!r} is not on the public internet, and the operator has not allowed it."
        super().__init__(message, value=shown)


class HostUnknown(DomainError):
    """No address is known of the host, now."""

    kind, code, field = Kind.OVERLOADED, "outbound_host_unknown", "url"

    def __init__(self, host: str) -> None:
        super().__init__(f"The host {host!r} has no address.", value=host)


class HostUnreachable(DomainError):
    """There was no proper answer: no connection, no valid certificate, or one that broke off."""

    kind, code, field = Kind.OVERLOADED, "outbound_host_unreachable", "url"

    def __init__(self, host: str, what: str) -> None:
        super().__init__(f"{host!r} {what}.", value=host)


class AnswerTooSlow(DomainError):
    """The whole exchange did not end in its time."""

    kind, code, field = Kind.OVERLOADED, "outbound_answer_too_slow", "url"

    def __init__(self, host: str, seconds: float) -> None:
        message = f"{host!r} did not answer in full within {seconds:g} s."
        super().__init__(message, rule=f"at most {seconds:g} s", value=host)


class AnswerTooLarge(DomainError):
    """The answer has more bytes than are read."""

    kind, code, field = Kind.TOO_LARGE, "outbound_answer_too_large", "url"

    def __init__(self, host: str, limit_bytes: int) -> None:
        message = f"{host!r} answered with more than the {limit_bytes} bytes that are read."
        super().__init__(message, rule=f"at most {limit_bytes} bytes", value=host)


class AnswerEncoded(DomainError):
    """The answer came compressed, although that was not accepted."""

    kind, code = Kind.INVALID, "outbound_answer_encoded"
    field, rule = "url", "no content encoding"

    def __init__(self, host: str, encoding: str) -> None:
        message = f"{host!r} answered with the content encoding {encoding[:40]!r}."
        super().__init__(message, value=encoding[:40])


class TooManyRedirects(DomainError):
    """The host sent us on more often than we follow."""

    kind, code, field = Kind.INVALID, "outbound_too_many_redirects", "url"

    def __init__(self, host: str, limit: int) -> None:
        message = f"{host!r} sent us on more than {limit} times."
        super().__init__(message, rule=f"at most {limit} redirects", value=host)
