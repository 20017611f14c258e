"""Collects bytes that nothing refers to any more, some time after they last came in.

A blob is in use while a version has it (a deleted one too, until it is purged), a running request
may yet fetch it, or an open upload says it will bring it. References are looked for with the blob's
row locked, and the lock is kept until the object is gone: whoever brings the same bytes meanwhile
waits, and stores them again.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, and_, exists, func, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads.models import OPEN, Blob, Upload, UploadFile
from loraplex.adapters_registry.versions.models import AdapterVersion
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.platform.admission.models import Reservation
from loraplex.platform.blobs import blob_key, may_delete
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.models import Tenant

BATCH = 100


class Collectable(NamedTuple):
    tenant_id: UUID
    digest: str
    namespace: str


@dataclass(frozen=True)
class Collector:
    """Deletes unreferenced blobs, on role `system`."""

    database: Database
    store: ObjectStore
    grace: timedelta

    async def collect(self) -> int:
        """Delete some of the blobs that are in no use; how many.

        One transaction a blob, held over one call to the store. Raises StoreUnavailable; what was
        deleted before that stays deleted.
        """
        async with self.database.unit_of_work() as session:
            found = await collectable(session, self.grace)
        collected = 0
        for blob in found:
            async with self.database.unit_of_work() as session:
                collected += await self.collect_one(session, blob)
        return collected

    async def collect_one(self, session: AsyncSession, blob: Collectable) -> bool:
        """Delete one blob unless it is used, held or backed up; the object first, then its row.

        A crash in between leaves a row without an object, which the next round deletes as well.
        """
        if not await may_delete(session):
            return False
        mine = (Blob.tenant_id == blob.tenant_id) & (Blob.digest == blob.digest)
        statement = select(Blob).where(mine).with_for_update(skip_locked=True)
        row = await session.scalar(statement)
        if row is None:
            return False
        # A statement of its own, after the lock: it sees whatever was committed before.
        still = select(Blob.digest).where(mine, is_collectable(self.grace))
        if await session.scalar(still) is None:
            return False
        key = blob_key(TenantNamespace(blob.namespace), Digest(blob.digest))
        await asyncio.to_thread(self.store.delete, key)
        await session.delete(row)
        return True


async def collectable(session: AsyncSession, grace: timedelta) -> list[Collectable]:
    """Blobs in no use, the oldest first."""
    statement = (
        select(Blob.tenant_id, Blob.digest, Tenant.namespace)
        .join(Tenant, Tenant.id == Blob.tenant_id)
        .where(is_collectable(grace))
        .order_by(Blob.created_at)
        .limit(BATCH)
    )
    return [Collectable(*row) for row in await session.execute(statement)]


def is_collectable(grace: timedelta) -> ColumnElement[bool]:
    """Whether a blob came in longer than `grace` ago and nothing refers to it."""
    of_a_version = exists().where(
        AdapterVersion.tenant_id == Blob.tenant_id,
        or_(
            AdapterVersion.weights_digest == Blob.digest,
            AdapterVersion.config_digest == Blob.digest,
        ),
    )
    of_a_request = exists().where(
        Reservation.tenant_id == Blob.tenant_id,
        Reservation.weights_digest == Blob.digest,
        Reservation.expires_at > func.clock_timestamp(),
    )
    of_an_upload = exists().where(
        UploadFile.tenant_id == Blob.tenant_id,
        UploadFile.sha256 == func.replace(Blob.digest, "sha256:", ""),
        Upload.tenant_id == UploadFile.tenant_id,
        Upload.id == UploadFile.upload_id,
        Upload.status.in_(OPEN),
    )
    return and_(
        Blob.created_at < func.now() - literal(grace),
        ~of_a_version,
        ~of_a_request,
        ~of_an_upload,
    )
