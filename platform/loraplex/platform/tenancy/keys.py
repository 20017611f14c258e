"""The text of an API key: a prefix that tells its kind, a random part, a checksum.

    lpx_      32 random characters  6 of checksum      a tenant's
    lpxadmin_ 32 random characters  6 of checksum      an operator's

A scanner recognises a leaked key by its shape, and a mistyped one is refused without the database.
"""

import re
import secrets
import string
import zlib
from enum import StrEnum

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
RANDOM_CHARACTERS = 32
CHECKSUM_CHARACTERS = 6
SHOWN_START, SHOWN_END = 4, 4

KEY_PATTERN = re.compile(
    rf"(lpx|lpxadmin)_([0-9A-Za-z]{{{RANDOM_CHARACTERS}}})([0-9A-Za-z]{{{CHECKSUM_CHARACTERS}}})"
)

KEY_PURPOSE = "api-key"
"""The purpose that a key's hash is derived for."""


class KeyKind(StrEnum):
    """Whose key it is; the value is its prefix."""

    TENANT = "lpx"
    OPERATOR = "lpxadmin"


def new_key(kind: KeyKind) -> str:
    """A new random key (190 bits). It exists only here: what is stored is its hash."""
    random = "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_CHARACTERS))
    return f"{kind}_{random}{_checksum(kind, random)}"


def kind_of(key: str) -> KeyKind | None:
    """The kind a key claims to be, or None when it cannot be a key at all."""
    match = KEY_PATTERN.fullmatch(key)
    if match is None:
        return None
    prefix, random, checksum = match.groups()
    kind = KeyKind(prefix)
    return kind if checksum == _checksum(kind, random) else None


def label_of(key: str) -> str:
    """What may be shown of a key, so that its owner recognises it."""
    prefix, _, rest = key.partition("_")
    return f"{prefix}_{rest[:SHOWN_START]}…{rest[-SHOWN_END:]}"


def _checksum(kind: KeyKind, random: str) -> str:
    value = zlib.crc32(f"{kind}_{random}".encode())
    digits = ""
    for _ in range(CHECKSUM_CHARACTERS):
        value, digit = divmod(value, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
