"""Why a sign-in through an identity provider failed. None of them carries a code or a token."""

from loraplex.engine.protocol.errors import DomainError, FixedRefusal, Kind


class OidcOff(FixedRefusal):
    """No identity provider is configured."""

    kind, code = Kind.NOT_FOUND, "oidc_off"
    message = "No identity provider is configured here."


class OidcUnavailable(DomainError):
    """The identity provider does not answer, or not as one."""

    kind, code = Kind.OVERLOADED, "oidc_unavailable"
    retry_after_seconds = 5

    def __init__(self, what: str) -> None:
        super().__init__(f"The identity provider's {what} cannot be had.")


class LoginNotBegun(FixedRefusal):
    """The state is not that of a login this browser began: forged, used, or too old."""

    kind, code, field = Kind.FORBIDDEN, "oidc_state", "state"
    message = "This sign-in was not begun here, or took too long. Begin it again."


class LoginRefused(DomainError):
    """The identity provider refused, or what it said does not hold."""

    kind, code = Kind.FORBIDDEN, "oidc_refused"

    def __init__(self, why: str) -> None:
        super().__init__(f"The sign-in was refused: {why}.")


class EmailUnverified(FixedRefusal):
    """The identity provider does not vouch for the person's e-mail address."""

    kind, code = Kind.FORBIDDEN, "oidc_email_unverified"
    field, rule = "email_verified", "true"
    message = "Your identity provider has not verified your e-mail address."


class InvalidGroupRoles(DomainError):
    """LORAPLEX_OIDC_GROUP_ROLES is not what it should be."""

    kind, code, field = Kind.INVALID, "invalid_group_roles", "LORAPLEX_OIDC_GROUP_ROLES"
    rule = 'a JSON object as {"group": "tenant/role", "staff": "admin"}'

    def __init__(self, why: str) -> None:
        super().__init__(f"LORAPLEX_OIDC_GROUP_ROLES: {why}.")
