"""Digests: the only names the engine trusts."""

import hashlib
import json
from pathlib import Path
from typing import NewType

Digest = NewType("Digest", str)
"""`sha256:` and 64 lower-case hex digits."""

TenantNamespace = NewType("TenantNamespace", str)
"""An opaque random string of a tenant: keys caches, names nobody."""


def canonical_json(value: object) -> bytes:
    """The one byte form of a JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest_of_bytes(data: bytes | memoryview) -> Digest:
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def digest_of_file(path: Path) -> Digest:
    with path.open("rb") as file:
        return Digest("sha256:" + hashlib.file_digest(file, "sha256").hexdigest())


def digest_of_manifest(manifest: object) -> Digest:
    """The digest of a manifest's canonical form."""
    return digest_of_bytes(canonical_json(manifest))
