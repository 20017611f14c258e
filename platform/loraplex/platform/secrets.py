"""Keys derived from the platform's one secret: one for each purpose, so none unlocks another.

The secret is a list. The first signs; all verify, so a new one is put in front and the old ones
stay until nothing signed with them is left.
"""

import base64
import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from loraplex.engine.protocol.errors import DomainError, Kind
from loraplex.platform.settings import Settings

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

SECRET_KEY_FILE = "secret_key"  # noqa: S105 - a file's name
MIN_KEY_CHARACTERS = 32


class WeakSecretKey(DomainError):
    """LORAPLEX_SECRET_KEY holds a key too short to be one, or none."""

    kind, code = Kind.INVALID, "weak_secret_key"


class SealBroken(DomainError):
    """What was stored encrypted does not open under any of the keys: one was taken away."""

    kind, code = Kind.OVERLOADED, "seal_broken"
    field, rule = "LORAPLEX_SECRET_KEY", "every key that something was encrypted under"

    def __init__(self, purpose: str) -> None:
        super().__init__(
            f"A stored secret ({purpose}) was encrypted under a key that LORAPLEX_SECRET_KEY no "
            "longer lists."
        )


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

    def encrypt(self, purpose: str, data: bytes) -> bytes:
        """`data` readable again by `decrypt` alone: encrypted and authenticated, first key."""
        return self._fernet(purpose).encrypt(data)

    def decrypt(self, purpose: str, sealed: bytes) -> bytes:
        """What `encrypt` was given, under any of the keys. Raises SealBroken."""
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet(purpose).decrypt(sealed)
        except InvalidToken:
            raise SealBroken(purpose) from None

    def _fernet(self, purpose: str) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet

        derived = [_derive(key, f"encrypt/{purpose}") for key in self._keys]
        return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived])

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
