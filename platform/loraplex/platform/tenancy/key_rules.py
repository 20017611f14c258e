"""Who may make which key, and do what to one: never to more than they may themselves."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from loraplex.platform.tenancy.errors import ExceedsCreator, ExpiryInThePast, KeyNotYours
from loraplex.platform.tenancy.key_views import ApiKeyView
from loraplex.platform.tenancy.principals import TenantPrincipal
from loraplex.platform.tenancy.scopes import Role, Scope

Models = frozenset[str] | None
"""Names of bases and adapters; None is every one."""

MANAGERS = frozenset({Role.OWNER, Role.ADMIN})
"""Who may end other members' keys."""


@dataclass(frozen=True, slots=True)
class KeyDraft:
    """A key that somebody wants."""

    name: str
    scopes: frozenset[Scope] | None
    """None: all of `role`'s."""
    models: Models = None
    expires_at: datetime | None = None
    role: Role | None = None
    """What bounds the scopes; None: the creator's."""


def check_scopes(principal: TenantPrincipal, scopes: Collection[Scope]) -> None:
    """Raise ExceedsCreator unless the principal has all of these."""
    beyond = sorted(set(scopes) - principal.scopes)
    if beyond:
        rule = "scopes that you have: " + ", ".join(sorted(principal.scopes))
        raise ExceedsCreator("scopes", rule, ", ".join(beyond))


def check_models(principal: TenantPrincipal, models: Models) -> None:
    """Raise ExceedsCreator unless the principal may call all of these."""
    if principal.models is None:
        return
    rule = "models that you may call: " + ", ".join(sorted(principal.models))
    if models is None:
        raise ExceedsCreator("models", rule, "every model")
    beyond = sorted(models - principal.models)
    if beyond:
        raise ExceedsCreator("models", rule, ", ".join(beyond))


def bounded_expiry(
    wanted: datetime | None, creators: datetime | None, now: datetime
) -> datetime | None:
    """When a new key ends: as wanted, and with its creator's key where nothing was said.

    Raises ExceedsCreator when it would outlive that key, and ExpiryInThePast.
    """
    if wanted is None:
        return creators
    if wanted <= now:
        raise ExpiryInThePast
    if creators is not None and wanted > creators:
        raise ExceedsCreator(
            "expires_at", f"no later than your own key: {creators.isoformat()}", wanted.isoformat()
        )
    return wanted


def check_manages(principal: TenantPrincipal, key: ApiKeyView) -> None:
    """Raise KeyNotYours unless the principal may change or end this key.

    The key must not be able to do what the principal cannot, and must be its own or nobody's;
    owners and admins may end what other members made.
    """
    beyond = sorted(key.scopes - principal.scopes)
    if beyond:
        raise KeyNotYours(key.id, f"the scopes {', '.join(beyond)}")
    if principal.models is not None and (key.models is None or key.models - principal.models):
        raise KeyNotYours(key.id, "access to all of the key's models")
    if not _is_own(principal, key.member_id) and principal.role not in MANAGERS:
        raise KeyNotYours(key.id, "its member, an admin or an owner")


def check_holds(principal: TenantPrincipal, key: ApiKeyView) -> None:
    """Raise KeyNotYours unless the principal may have this key's text: nobody gets another's."""
    check_manages(principal, key)
    if not _is_own(principal, key.member_id):
        raise KeyNotYours(key.id, "its member")


def _is_own(principal: TenantPrincipal, member_id: UUID | None) -> bool:
    return member_id is None or member_id == principal.member_id
