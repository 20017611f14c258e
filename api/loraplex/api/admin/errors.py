"""What operators' routes need, and refuse without."""

from loraplex.api.services import Services
from loraplex.engine.protocol.errors import FixedRefusal, Kind
from loraplex.platform.database.sessions import Database


class NoOperatorDatabase(FixedRefusal):
    """This gateway was started without the URL of role `system`."""

    kind, code = Kind.OVERLOADED, "no_operator_database"
    rule = "LORAPLEX_DATABASE_SYSTEM_URL is set"
    message = (
        "This gateway cannot read across tenants: it was started without "
        "LORAPLEX_DATABASE_SYSTEM_URL."
    )


def system_of(services: Services) -> Database:
    """The database across tenants; raises NoOperatorDatabase."""
    if services.system is None:
        raise NoOperatorDatabase
    return services.system
