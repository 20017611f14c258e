"""What keys are on the wire, tenants' and operators'."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints

from loraplex.api.schemas import WireModel
from loraplex.platform.tenancy.key_lives import MAX_OVERLAP
from loraplex.platform.tenancy.scopes import OperatorRole, Role, Scope

EVERY_MODEL = "*"
MAX_MODELS = 100

KeyName = Annotated[
    str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")
]
# Strict models take no text for an enumeration's member or a time; these do.
Scopes = Annotated[
    list[Annotated[Scope, Field(strict=False)]], Field(min_length=1, max_length=len(Scope))
]
Models = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=200)]],
    Field(min_length=1, max_length=MAX_MODELS),
]
State = Literal["live", "disabled", "expired", "revoked"]


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("an RFC 3339 time with its offset, as text")
    return value


Moment = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_text)]


class NewKey(WireModel):
    name: KeyName
    """What the key is for."""
    scopes: Scopes
    """What it may do; nothing that whoever asks may not."""
    models: Models = [EVERY_MODEL]
    """The bases and adapters it may call, by name; `*` stands for all, those to come too."""
    expires_at: Moment | None = None
    """Absent: it ends with the key that makes it, or never."""


class KeyChanges(WireModel):
    """What is absent stays as it is."""

    name: KeyName | None = None
    models: Models | None = None
    is_disabled: bool | None = None
    """True puts the key aside within five seconds; false takes it up again."""


class KeyRotation(WireModel):
    overlap_seconds: Annotated[int, Field(ge=0, le=int(MAX_OVERLAP.total_seconds()))] = 86400
    """How long the old key goes on beside the new one."""
    expires_at: Moment | None = None
    """When the new key ends; absent: when the old one would have."""


class StoredKey(WireModel):
    """A key without its text, which is stored nowhere."""

    id: str
    name: str
    label: str
    """The text's first and last characters."""
    state: State
    expires_at: datetime | None
    disabled_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """To the minute."""
    replaced_by: str | None
    """The id of the key that a rotation made."""
    created_at: datetime


class Key(StoredKey):
    """A tenant's key."""

    member_id: str | None
    """Whose it is: it may no more than the member, and ends with the membership."""
    role: Role
    scopes: list[Scope]
    """What it may do today."""
    models: list[str]


class KeyWithText(Key):
    api_key: str
    """Shown this once."""


class KeyList(WireModel):
    data: list[Key]
    next_cursor: str | None


class CallerKey(WireModel):
    """The credential that asks, and what it may do."""

    kind: Literal["key", "person"]
    id: str | None
    """The key's; null for a person's session."""
    label: str
    tenant: str
    member_id: str | None
    role: Role
    scopes: list[Scope]
    models: list[str]
    expires_at: datetime | None
    """The key's end; null for a key without one, and for a person's session."""
    last_used_at: datetime | None


class NewOperatorKey(WireModel):
    name: KeyName
    role: Annotated[OperatorRole, Field(strict=False)] = OperatorRole.ADMIN
    """`admin_viewer` sees what `admin` sees and changes nothing."""
    expires_at: Moment | None = None
    """Absent: it ends with the key that makes it, or never."""


class OperatorKeyChanges(WireModel):
    """What is absent stays as it is."""

    name: KeyName | None = None
    is_disabled: bool | None = None


class OperatorKey(StoredKey):
    """A key of the platform's own staff."""

    user_id: str | None
    role: OperatorRole


class OperatorKeyWithText(OperatorKey):
    api_key: str
    """Shown this once."""


class OperatorKeyList(WireModel):
    data: list[OperatorKey]
    next_cursor: str | None
