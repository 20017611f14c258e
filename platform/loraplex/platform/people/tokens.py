"""Tokens of people's sessions: random, known to their browser alone, stored as keyed hashes."""

import secrets
from datetime import timedelta
from typing import Any

from loraplex.platform.people.signed_in import Client
from loraplex.platform.secrets import SecretKeys

TOKEN_PREFIX = "p."  # noqa: S105 - a prefix
TOKEN_PURPOSE = "person-session"  # noqa: S105 - what a hash is derived for
TOKEN_BYTES = 32
LIFETIME = timedelta(hours=12)
LONGEST_USER_AGENT = 256


def is_persons(token: str) -> bool:
    """Whether a session's token was given to a person, not for a key."""
    return token.startswith(TOKEN_PREFIX)


class Tokens:
    """Sessions' tokens: random, known to their browser alone, stored as keyed hashes."""

    def __init__(self, secret_keys: SecretKeys) -> None:
        self._secrets = secret_keys

    def new(self, client: Client) -> tuple[str, dict[str, Any]]:
        """A token, and what a function that opens a session for it wants to know."""
        token = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        return token, {
            "token_hash": self._secrets.mac(TOKEN_PURPOSE, token.encode()),
            "lifetime": LIFETIME,
            "address": client.address,
            "user_agent": client.user_agent[:LONGEST_USER_AGENT],
        }

    def hashes(self, token: str) -> list[bytes]:
        return self._secrets.macs(TOKEN_PURPOSE, token.encode())
