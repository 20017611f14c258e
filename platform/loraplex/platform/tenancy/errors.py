"""Refusals of credentials and of tenants. None of them carries a key, a token or a hash."""

from uuid import UUID

from loraplex.engine.protocol.errors import DomainError, FixedRefusal, Kind


class InvalidKey(DomainError):
    """The key is malformed, unknown, expired, disabled or revoked.

    Whoever has the text of a key that expired or was put aside is told so. Of a revoked one nothing
    is told: it may have been revoked since it leaked.
    """

    kind, code = Kind.UNAUTHENTICATED, "invalid_api_key"
    field, rule = "api_key", "a live key"

    def __init__(self, state: str | None = None) -> None:
        why = {"expired": "has expired", "disabled": "is disabled"}.get(state or "", "is not valid")
        super().__init__(f"The API key {why}.")


class InvalidSession(FixedRefusal):
    """The web session is unknown or has ended."""

    kind, code = Kind.UNAUTHENTICATED, "invalid_session"
    rule = "a live session"
    message = "The session has ended: sign in again."


class TooManyFailures(DomainError):
    """This client address sent too many bad keys; it may try again after a while."""

    kind, code = Kind.LIMITED, "too_many_failures"

    def __init__(self, limit: int, retry_after_seconds: int) -> None:
        super().__init__(
            f"Too many invalid keys from this address: try again in {retry_after_seconds} s.",
            rule=f"at most {limit} invalid keys a minute from one address",
            retry_after_seconds=retry_after_seconds,
        )


class TenantSuspended(DomainError):
    """The key is right; its tenant is suspended."""

    kind, code = Kind.FORBIDDEN, "tenant_suspended"
    rule = "an active tenant"

    def __init__(self, name: str) -> None:
        super().__init__(f"The tenant {name!r} is suspended.", value=name)


class InvalidTenantName(DomainError):
    """The name is not one that `<tenant>/<adapter>` could hold."""

    kind, code, field = Kind.INVALID, "invalid_tenant_name", "name"

    def __init__(self, name: str) -> None:
        rule = "1 to 63 lower-case letters, digits and hyphens, no hyphen at either end"
        super().__init__(f"{name!r} is no tenant name: {rule}.", rule=rule, value=name)


class TenantNameTaken(DomainError):
    """There is a tenant of this name already."""

    kind, code = Kind.CONFLICT, "tenant_name_taken"
    field, rule = "name", "unique"

    def __init__(self, name: str) -> None:
        super().__init__(f"A tenant named {name!r} already exists.", value=name)


class TenantNotFound(DomainError):
    """No tenant has this name."""

    kind, code, field = Kind.NOT_FOUND, "tenant_not_found", "tenant"

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no tenant named {name!r}.", value=name)


class KeyNotFound(DomainError):
    """No key has this id."""

    kind, code, field = Kind.NOT_FOUND, "key_not_found", "key_id"

    def __init__(self, key_id: UUID) -> None:
        super().__init__(f"There is no key with id {key_id}.", value=str(key_id))


class ExceedsCreator(DomainError):
    """A key may be given nothing that whoever makes or changes it does not have."""

    kind, code = Kind.FORBIDDEN, "exceeds_creator"

    def __init__(self, field: str, rule: str, value: str) -> None:
        message = f"`{field}` goes beyond your own: {value}."
        super().__init__(message, field=field, rule=rule, value=value)


class KeyNotYours(DomainError):
    """The key may do what the caller may not, or is another member's."""

    kind, code, field = Kind.FORBIDDEN, "key_not_yours", "key_id"

    def __init__(self, key_id: UUID, rule: str) -> None:
        message = f"You may not do this to the key {key_id}: it needs {rule}."
        super().__init__(message, rule=rule, value=str(key_id))


class KeyNotLive(DomainError):
    """The key has ended, is being replaced or is disabled, and this cannot be done to it."""

    kind, code, field = Kind.CONFLICT, "key_not_live", "key_id"

    def __init__(self, key_id: UUID, state: str, rule: str) -> None:
        super().__init__(f"The key {key_id} is {state}; this needs {rule}.", rule=rule, value=state)


class TooManyKeys(DomainError):
    """The tenant has as many keys as one may have; ended ones do not count."""

    kind, code = Kind.CONFLICT, "too_many_keys"

    def __init__(self, limit: int) -> None:
        message = f"There are {limit} keys already: revoke one first."
        super().__init__(message, rule=f"at most {limit} keys", value=limit)


class ExpiryInThePast(FixedRefusal):
    """A key that is made must live for a while."""

    kind, code = Kind.INVALID, "expiry_in_the_past"
    field, rule = "expires_at", "a time to come"
    message = "`expires_at` has passed already."
