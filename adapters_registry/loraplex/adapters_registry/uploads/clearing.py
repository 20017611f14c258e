"""Takes an ended upload's bytes out of the staging area. May run twice, and beside itself."""

import asyncio
from uuid import UUID

from loraplex.adapters_registry.uploads import lifecycle
from loraplex.adapters_registry.uploads.repository import UploadRepository
from loraplex.adapters_registry.uploads.staging import Staging, staging_key
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.identity import TenantId


async def clear(
    database: Database,
    staging: Staging,
    tenant_id: TenantId,
    namespace: TenantNamespace,
    upload_id: UUID,
) -> None:
    """Remove what is left of an ended upload, and note it. Raises StoreUnavailable."""
    async with database.unit_of_work(tenant_id) as session:
        files = (await UploadRepository(session, tenant_id).files([upload_id]))[upload_id]
    for file in files:
        key = staging_key(namespace, upload_id, file.position)
        await asyncio.to_thread(staging.clear, key, file.store_upload_id)
    async with database.unit_of_work(tenant_id) as session:
        await lifecycle.note_cleared(session, tenant_id, upload_id)
