"""Why a sign-in through an identity provider failed. None of them carries a code or a token."""

from loraplex.engine.protocol.errors import DomainError, Kind


class OidcOff(DomainError):
    """No identity provider is configured."""

    kind, code = Kind.NOT_FOUND, "oidc_off"

    def __init__(self) -> None:
        super().__init__("No identity provider is configured here.")


class OidcUnavailable(DomainError):
    """The identity provider does not answer, or not as one."""

    kind, code = Kind.OVERLOADED, "oidc_unavailable"

    def __init__(self, what: str) -> None:
        super().__init__(f"The identity provider's {what} cannot be had.", retry_after_seconds=5)


class LoginNotBegun(DomainError):
    """The state is not that of a login this browser began: forged, used, or too old."""

    kind, code = Kind.FORBIDDEN, "oidc_state"

    def __init__(self) -> None:
        super().__init__(
            "This sign-in was not begun here, or took too long. Begin it again.", field="state"
        )


class LoginRefused(DomainError):
    """The identity provider refused, or what it said does not hold."""

    kind, code = Kind.FORBIDDEN, "oidc_refused"

    def __init__(self, why: str) -> None:
        super().__init__(f"The sign-in was refused: {why}.")


class EmailUnverified(DomainError):
    """The identity provider does not vouch for the person's e-mail address."""

    kind, code = Kind.FORBIDDEN, "oidc_email_unverified"

    def __init__(self) -> None:
        super().__init__(
            "Your identity provider has not verified your e-mail address.",
            field="email_verified",
            rule="true",
        )


class InvalidGroupRoles(DomainError):
    """LORAPLEX_OIDC_GROUP_ROLES is not what it should be."""

    kind, code = Kind.INVALID, "invalid_group_roles"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"LORAPLEX_OIDC_GROUP_ROLES: {why}.",
            field="LORAPLEX_OIDC_GROUP_ROLES",
            rule='a JSON object as {"group": "tenant/role", "staff": "admin"}',
        )
