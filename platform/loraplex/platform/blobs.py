"""Where blobs lie in the object store, and when they may be deleted there."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.engine.protocol.identity import Digest, TenantNamespace

DELETION_LOCK = 0x626C6F62
"""Advisory lock (any constant of our own): shared by who deletes blobs, held alone by a backup."""
MAY_DELETE = text("SELECT pg_try_advisory_xact_lock_shared(:key)").bindparams(key=DELETION_LOCK)


def blob_key(namespace: TenantNamespace, digest: Digest) -> str:
    """Where the bytes of this digest lie; two tenants' identical bytes lie apart."""
    return f"tenants/{namespace}/blobs/{digest.removeprefix('sha256:')}"


async def may_delete(session: AsyncSession) -> bool:
    """Whether blobs may be deleted until this transaction ends: not while a backup copies them."""
    return bool(await session.scalar(MAY_DELETE))
