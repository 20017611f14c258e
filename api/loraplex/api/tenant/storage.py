"""What a tenant stores, beside what it may store."""

from fastapi import APIRouter

from loraplex.adapters_registry.uploads import quota
from loraplex.api.authentication import AdapterReaderDep
from loraplex.api.documentation import PROBLEM
from loraplex.api.schemas import WireModel
from loraplex.api.services import ServicesDep

router = APIRouter(prefix="/api/v1/storage", tags=["adapters"], responses=PROBLEM)


class Storage(WireModel):
    """Bytes: of adapters' files, each counted once, and of what uploads and imports announced."""

    stored_bytes: int
    reserved_bytes: int
    limit_bytes: int | None
    """What both together may be; an upload that would go beyond is refused. None: as they like."""


@router.get("", operation_id="getStorage")
async def get_storage(services: ServicesDep, principal: AdapterReaderDep) -> Storage:
    """What the tenant's adapters take of its storage, at this moment."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        found = await quota.usage(session, principal.tenant_id)
    return Storage(
        stored_bytes=found.stored_bytes,
        reserved_bytes=found.reserved_bytes,
        limit_bytes=found.limit_bytes,
    )
