"""A tenant's pins: adapters kept in the pool, whatever room others need."""

from datetime import datetime

from fastapi import APIRouter, Request

from loraplex.adapters_registry.errors import ModelNotFound
from loraplex.adapters_registry.pins.service import Pins
from loraplex.api.acting import record_own
from loraplex.api.authentication import AdapterReaderDep, AdapterWriterDep
from loraplex.api.documentation import PROBLEM
from loraplex.api.schemas import WireModel
from loraplex.api.services import ServicesDep
from loraplex.platform.audit.actors import Target

router = APIRouter(prefix="/api/v1/adapters/{name}/pin", tags=["adapters"], responses=PROBLEM)
PINS = Pins()


class AdapterPin(WireModel):
    """That an adapter is pinned, and since when."""

    adapter: str
    created_at: datetime


@router.get("", operation_id="getPin")
async def get_pin(name: str, services: ServicesDep, principal: AdapterReaderDep) -> AdapterPin:
    """Whether the adapter is pinned; 404 where it is not."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        return AdapterPin(adapter=name, created_at=await PINS.get(session, principal, name))


@router.put("", operation_id="putPin")
async def put_pin(
    name: str, request: Request, services: ServicesDep, principal: AdapterWriterDep
) -> AdapterPin:
    """Keep the adapter in the pool: the version that its bare name means, now and later.

    Workers begin to fetch it at once. Pinning twice is once.
    """
    async with services.database.unit_of_work(principal.tenant_id) as session:
        created_at = await PINS.put(session, principal, name)
        target = Target("adapter", None, name)
        await record_own(session, request, principal, "adapter.pinned", target)
        try:
            resolved = await services.catalogue.resolve(session, principal, name)
        except ModelNotFound:  # no version is ready; the next one that is will be kept
            resolved = None
    if resolved is not None:
        services.adapter_refs.foretell(principal, resolved, everywhere=True)
    return AdapterPin(adapter=name, created_at=created_at)


@router.delete("", operation_id="deletePin", status_code=204)
async def delete_pin(
    name: str, request: Request, services: ServicesDep, principal: AdapterWriterDep
) -> None:
    """Let the adapter go like others when room is needed; 204 also where it was not pinned."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        await PINS.remove(session, principal, name)
        target = Target("adapter", None, name)
        await record_own(session, request, principal, "adapter.unpinned", target)
