"""The life of a key of either kind: minted, put aside and taken up again, replaced, ended."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.credentials import CredentialState
from loraplex.platform.tenancy.errors import KeyNotLive
from loraplex.platform.tenancy.key_views import ApiKeyView, OperatorKeyView
from loraplex.platform.tenancy.keys import KEY_PURPOSE, KeyKind, label_of, new_key
from loraplex.platform.tenancy.models import StoredKey

MAX_OVERLAP = timedelta(days=7)
"""How long a key may live on beside the one that replaces it."""


class Minted(NamedTuple):
    """A key's text, to be told once, and what is stored of it."""

    text: str
    stored: dict[str, object]


def mint(secrets: SecretKeys, kind: KeyKind) -> Minted:
    """A new key's text; a row is made of `stored` and what the key may."""
    text = new_key(kind)
    key_hash = secrets.mac(KEY_PURPOSE, text.encode())
    return Minted(text, {"label": label_of(text), "key_hash": key_hash})


def set_disabled(key: StoredKey, is_disabled: bool, now: datetime) -> None:
    """Disable or enable; one that is so already keeps the time at which it was."""
    if not is_disabled:
        key.disabled_at = None
    elif key.disabled_at is None:
        key.disabled_at = now


def replace(key: StoredKey, by: UUID, ends_at: datetime) -> datetime:
    """Have another take over; this one ends then, or when it would have, which it returns."""
    key.expires_at = ends_at if key.expires_at is None else min(ends_at, key.expires_at)
    key.replaced_by_id = by
    return key.expires_at


def refuse_ended(key: ApiKeyView | OperatorKeyView) -> None:
    """Raise KeyNotLive for a key of which there is nothing left to change."""
    if key.state in (CredentialState.REVOKED, CredentialState.EXPIRED):
        raise KeyNotLive(key.id, key.state.value, "a live or disabled key")


def refuse_unrotatable(key: ApiKeyView | OperatorKeyView) -> None:
    """Raise KeyNotLive for a key that nothing can take over from, or something has."""
    state = "replaced" if key.replaced_by_id is not None else key.state.value
    if state != CredentialState.LIVE:
        raise KeyNotLive(key.id, state, "a live key that was not rotated before")
