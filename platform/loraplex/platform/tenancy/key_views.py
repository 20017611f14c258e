"""Keys as they are shown: never their text, never their hash."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from loraplex.platform.people.models import Membership
from loraplex.platform.tenancy.credentials import CredentialState
from loraplex.platform.tenancy.models import ApiKey, OperatorKey, StoredKey
from loraplex.platform.tenancy.scopes import OperatorRole, Role, Scope, granted


def state_of(key: StoredKey, now: datetime) -> CredentialState:
    """What counts first stands first; whoever a key belongs to may have ended it as well."""
    if key.revoked_at is not None:
        return CredentialState.REVOKED
    if key.expires_at is not None and key.expires_at <= now:
        return CredentialState.EXPIRED
    return CredentialState.LIVE if key.disabled_at is None else CredentialState.DISABLED


@dataclass(frozen=True, slots=True)
class KeyView:
    """What keys of both kinds show."""

    id: UUID
    name: str
    label: str
    state: CredentialState
    expires_at: datetime | None
    disabled_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """To the minute."""
    replaced_by_id: UUID | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ApiKeyView(KeyView):
    """A tenant's key, with what it may do today."""

    member_id: UUID | None
    role: Role
    scopes: frozenset[Scope]
    models: frozenset[str] | None

    @classmethod
    def of(cls, key: ApiKey, member: Membership | None, now: datetime) -> Self:
        role = Role(key.role if member is None else member.role)
        state = state_of(key, now)
        if member is not None and member.ended_at is not None:
            state = CredentialState.REVOKED
        return cls(
            **_common(key, state),
            member_id=key.member_id,
            role=role,
            scopes=granted(role, key.scopes),
            models=None if key.models is None else frozenset(key.models),
        )


@dataclass(frozen=True, slots=True)
class OperatorKeyView(KeyView):
    """An operator's key."""

    user_id: UUID | None
    role: OperatorRole

    @classmethod
    def of(cls, key: OperatorKey, now: datetime) -> Self:
        role = OperatorRole(key.role)
        return cls(**_common(key, state_of(key, now)), user_id=key.user_id, role=role)


def audited(key: ApiKeyView | OperatorKeyView) -> dict[str, object]:
    """What the audit log keeps of a key."""
    told: dict[str, object] = {
        "name": key.name,
        "label": key.label,
        "state": key.state.value,
        "role": key.role.value,
        "expires_at": None if key.expires_at is None else key.expires_at.isoformat(),
    }
    if isinstance(key, ApiKeyView):
        told["scopes"] = sorted(key.scopes)
        told["models"] = None if key.models is None else sorted(key.models)
    return told


def _common(key: StoredKey, state: CredentialState) -> dict[str, Any]:
    shown = {one.name for one in fields(KeyView)} - {"state"}
    return {name: getattr(key, name) for name in shown} | {"state": state}
