"""What may be done, in words of one resource and one verb, and which role may do what."""

from collections.abc import Iterable, Mapping
from enum import StrEnum


class Role(StrEnum):
    """A member's role in its tenant, from the most to the least."""

    OWNER = "owner"
    ADMIN = "admin"
    DEVELOPER = "developer"
    VIEWER = "viewer"
    INFERENCE = "inference"


class OperatorRole(StrEnum):
    """A role among the platform's own staff."""

    ADMIN = "admin"
    ADMIN_VIEWER = "admin_viewer"
    """Sees what an admin sees and changes nothing."""


class Scope(StrEnum):
    """One permission: a resource and a verb."""

    MODELS_CALL = "models.call"
    ADAPTERS_READ = "adapters.read"
    ADAPTERS_WRITE = "adapters.write"
    KEYS_READ = "keys.read"
    KEYS_WRITE = "keys.write"
    MEMBERS_READ = "members.read"
    MEMBERS_WRITE = "members.write"
    USAGE_READ = "usage.read"
    LIMITS_READ = "limits.read"
    LIMITS_WRITE = "limits.write"
    WEBHOOKS_READ = "webhooks.read"
    WEBHOOKS_WRITE = "webhooks.write"
    AUDIT_READ = "audit.read"
    TENANT_WRITE = "tenant.write"


EVERYTHING = frozenset(Scope)
KNOWN = frozenset(scope.value for scope in Scope)

SCOPES_OF: Mapping[Role, frozenset[Scope]] = {
    Role.OWNER: EVERYTHING,
    # Whether the tenant itself lives on is its owners' to say.
    Role.ADMIN: EVERYTHING - {Scope.TENANT_WRITE},
    # Without the audit log, which holds colleagues' addresses, and without whatever would let
    # developers give themselves more.
    Role.DEVELOPER: EVERYTHING
    - {Scope.TENANT_WRITE, Scope.MEMBERS_WRITE, Scope.LIMITS_WRITE, Scope.AUDIT_READ},
    Role.VIEWER: frozenset(
        {
            Scope.ADAPTERS_READ,
            Scope.KEYS_READ,
            Scope.MEMBERS_READ,
            Scope.USAGE_READ,
            Scope.LIMITS_READ,
            Scope.WEBHOOKS_READ,
        }
    ),
    Role.INFERENCE: frozenset({Scope.MODELS_CALL}),
}
"""Each role's scopes. Down to `viewer` each holds what the next one holds."""


def granted(role: Role, scopes: Iterable[str] | None) -> frozenset[Scope]:
    """What a credential of `role` may do that names these scopes; None names all of them.

    Never more than the role may, which can have shrunk since; a name that this release does not
    know gives nothing.
    """
    if scopes is None:
        return SCOPES_OF[role]
    return SCOPES_OF[role] & {Scope(scope) for scope in scopes if scope in KNOWN}
