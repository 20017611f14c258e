"""Refusals of declarations."""

from loraplex.engine.protocol.errors import DomainError, Kind


class InvalidPublicPrefix(DomainError):
    """A text that cannot be declared, or that the base model's template cannot take."""

    kind, code = Kind.INVALID, "invalid_public_prefix"

    def __init__(self, what: str, *, field: str, rule: str, value: str | int) -> None:
        super().__init__(f"The public prefix {what}.", field=field, rule=rule, value=value)


class TooManyPublicPrefixes(DomainError):
    """As many as there may be are declared already."""

    kind, code = Kind.CONFLICT, "too_many_public_prefixes"

    def __init__(self, most: int) -> None:
        message = f"{most} public prefixes are declared, and there may be no more; withdraw one."
        super().__init__(message, rule=f"at most {most} public prefixes", value=most + 1)


class PublicPrefixNotFound(DomainError):
    """No public prefix has this name."""

    kind, code, field = Kind.NOT_FOUND, "public_prefix_not_found", "name"

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no public prefix {name[:64]!r}.", value=name[:64])
