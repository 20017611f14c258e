"""Refusals of operators' routes."""

from loraplex.engine.protocol.errors import DomainError, Kind


class NoOperatorDatabase(DomainError):
    """This gateway was started without the URL of role `system`."""

    kind, code = Kind.OVERLOADED, "no_operator_database"

    def __init__(self) -> None:
        super().__init__(
            "This gateway cannot read across tenants: it was started without "
            "LORAPLEX_DATABASE_SYSTEM_URL.",
            rule="LORAPLEX_DATABASE_SYSTEM_URL is set",
        )
