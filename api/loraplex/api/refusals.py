"""The gateway's own refusals. What they become over HTTP is written in `errors`."""

from loraplex.engine.protocol.errors import DomainError, FixedRefusal, Kind
from loraplex.platform.tenancy.scopes import Scope


class MissingKey(FixedRefusal):
    """No credential came with the request."""

    kind, code = Kind.UNAUTHENTICATED, "missing_api_key"
    field, rule = "Authorization", "a bearer key"
    message = "No API key came with the request. Send it as `Authorization: Bearer <key>`."


class WrongRole(DomainError):
    """The credential is good, but of a person this route is not for."""

    kind, code = Kind.FORBIDDEN, "wrong_role"


class MissingScope(DomainError):
    """The credential is good; it was not given this permission."""

    kind, code, field = Kind.FORBIDDEN, "missing_scope", "scopes"

    def __init__(self, scope: Scope) -> None:
        message = f"This needs the scope `{scope}`, which the credential does not have."
        super().__init__(message, rule=f"includes {scope}", value=scope.value)


class CrossSiteRequest(DomainError):
    """A browser's cookie came with a request that another site may have caused."""

    kind, code = Kind.FORBIDDEN, "cross_site_request"


class BodyTooLarge(DomainError):
    """The request's body is larger than this route reads."""

    kind, code = Kind.TOO_LARGE, "request_too_large"

    def __init__(self, limit_bytes: int, *, field: str | None = None) -> None:
        what = "The body" if field is None else field
        message = f"{what} is larger than the {limit_bytes} bytes that are read here."
        super().__init__(message, field=field, rule=f"at most {limit_bytes} bytes")


class InvalidJson(DomainError):
    """The body is not a JSON object."""

    kind, code = Kind.INVALID, "invalid_json"


class InvalidForm(DomainError):
    """The body is not the multipart form asked for."""

    kind, code = Kind.INVALID, "invalid_form"


class InvalidValue(DomainError):
    """A parameter's type or value is not one it may have."""

    kind, code = Kind.INVALID, "invalid_value"


class MissingParameter(DomainError):
    """A required parameter is absent or null."""

    kind, code = Kind.INVALID, "missing_required_parameter"


class UnknownParameter(DomainError):
    """A parameter nobody knows: more likely a misspelling than a wish to be ignored."""

    kind, code = Kind.INVALID, "unknown_parameter"


class UnsupportedParameter(DomainError):
    """A parameter OpenAI's API has and this one does not serve."""

    kind, code = Kind.INVALID, "unsupported_parameter"


class RouteNotFound(DomainError):
    """There is nothing at this path."""

    kind, code = Kind.NOT_FOUND, "route_not_found"


class ShuttingDown(FixedRefusal):
    """This gateway takes no new work, or had to end this one, because it stops."""

    kind, code = Kind.OVERLOADED, "shutting_down"
    retry_after_seconds = 1
    message = "The gateway is shutting down. Try again."


class DatabaseUnavailable(FixedRefusal):
    """Postgres does not answer."""

    kind, code = Kind.OVERLOADED, "database_unavailable"
    retry_after_seconds = 2
    message = "The database does not answer. Try again."
