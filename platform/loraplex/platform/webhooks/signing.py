"""Standard Webhooks: how a receiver knows that a call is ours, whole, and not an old one again.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime

SECRET_PREFIX = "whsec_"  # noqa: S105 - what every secret begins with
SECRET_BYTES = 32
VERSION = "v1"


def new_secret() -> str:
    """A signing secret as receivers' libraries read it."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(
    message_id: str, moment: datetime, body: bytes, signing_secrets: Sequence[str]
) -> dict[str, str]:
    """The three headers; one signature for each secret, the newest first."""
    timestamp = str(int(moment.timestamp()))
    signatures = (sign(message_id, timestamp, body, secret) for secret in signing_secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(signatures),
    }


def sign(message_id: str, timestamp: str, body: bytes, secret: str) -> str:
    """HMAC-SHA256 over id, seconds since 1970 and body, as `v1,<base64>`."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    content = b".".join((message_id.encode(), timestamp.encode(), body))
    mac = hmac.digest(key, content, hashlib.sha256)
    return f"{VERSION},{base64.b64encode(mac).decode()}"
