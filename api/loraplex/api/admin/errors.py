"""What operators' routes need, and refuse without."""

from loraplex.api.services import Services
from loraplex.engine.protocol.errors import DomainError, Kind
from loraplex.platform.database.sessions import Database


class NoOperatorDatabase(DomainError):
    """This gateway was started without the URL of role `system`."""

    kind, code = Kind.OVERLOADED, "no_operator_database"

    def __init__(self) -> None:
        super().__init__(
            "This gateway cannot read across tenants: it was started without "
            "LORAPLEX_DATABASE_SYSTEM_URL.",
            rule="LORAPLEX_DATABASE_SYSTEM_URL is set",
        )


def system_of(services: Services) -> Database:
    """The database across tenants; raises NoOperatorDatabase."""
    if services.system is None:
        raise NoOperatorDatabase
    return services.system
