"""Keys derived from the platform's one secret: one for each purpose, so none unlocks another.

The secret is a list. The first signs; all verify, so a new one is put in front and the old ones
stay until nothing signed with them is left.
"""

import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from loraplex.engine.protocol.errors import DomainError, Kind
from loraplex.platform.settings import Settings

SECRET_KEY_FILE = "secret_key"  # noqa: S105 - a file's name
MIN_KEY_CHARACTERS = 32


class WeakSecretKey(DomainError):
    """LORAPLEX_SECRET_KEY holds a key too short to be one, or none."""

    kind, code = Kind.INVALID, "weak_secret_key"


class CurveKeys(NamedTuple):
    """A ZeroMQ CURVE key pair, Z85 text as pyzmq takes it."""

    public: bytes
    secret: bytes


class SecretKeys:
    """The platform's secret, first key first."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Raises WeakSecretKey when there is no key or one is shorter than 32 characters."""
        if not keys or any(len(key) < MIN_KEY_CHARACTERS for key in keys):
            raise WeakSecretKey(
                f"LORAPLEX_SECRET_KEY must list keys of at least {MIN_KEY_CHARACTERS} characters, "
                "separated by commas.",
                field="LORAPLEX_SECRET_KEY",
                rule=f"at least {MIN_KEY_CHARACTERS} characters each",
            )
        self._keys = tuple(key.encode() for key in keys)

    @classmethod
    def from_settings(cls, settings: Settings) -> "SecretKeys":
        """The setting's keys, or those of `<data dir>/secret_key`, made (mode 0600) when absent."""
        if settings.secret_key is not None:
            return cls(_split(settings.secret_key.get_secret_value()))
        file = settings.data_dir / SECRET_KEY_FILE
        if not file.exists():
            _create(file)
        return cls(_split(file.read_text()))

    def __repr__(self) -> str:
        return f"SecretKeys(<{len(self._keys)} hidden>)"

    def derive(self, purpose: str) -> bytes:
        """32 bytes of the first key for one purpose."""
        return _derive(self._keys[0], purpose)

    def mac(self, purpose: str, data: bytes) -> bytes:
        """HMAC-SHA256 of `data` under the first key."""
        return self.macs(purpose, data)[0]

    def macs(self, purpose: str, data: bytes) -> list[bytes]:
        """HMAC-SHA256 of `data` under every key: what a stored one may equal."""
        return [hmac.digest(_derive(key, purpose), data, hashlib.sha256) for key in self._keys]

    def verify(self, purpose: str, data: bytes, mac: bytes) -> bool:
        """Whether `mac` is that of `data` under any of the keys."""
        return any(hmac.compare_digest(known, mac) for known in self.macs(purpose, data))

    def gateway_curve(self) -> CurveKeys:
        """The key pair all gateways share towards workers."""
        import zmq
        from zmq.utils import z85

        secret = z85.encode(self.derive("gateway-curve"))
        return CurveKeys(zmq.curve_public(secret), secret)


def _derive(key: bytes, purpose: str) -> bytes:
    return hmac.digest(key, b"loraplex/" + purpose.encode(), hashlib.sha256)


def _split(text: str) -> list[str]:
    return [key.strip() for key in text.split(",") if key.strip()]


def _create(file: Path) -> None:
    """Write a new secret; of two processes that start at once, one wins and both read its."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w") as out:
            out.write(secrets.token_urlsafe(48) + "\n")
            out.flush()
            os.fsync(out.fileno())
        # A link, unlike a rename, never replaces a secret that is already there.
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        Path(draft).unlink()
