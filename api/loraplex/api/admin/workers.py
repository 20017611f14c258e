"""GET /api/v1/admin/workers: the fleet as this gateway sees it."""

import msgspec
from fastapi import APIRouter

from loraplex.api.admin.schemas import Worker, WorkerList, WorkerLoad
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM
from loraplex.api.services import ServicesDep
from loraplex.platform.pools.views import WorkerView

router = APIRouter(prefix="/api/v1/admin", tags=["admin"], responses=PROBLEM)


@router.get("/workers", operation_id="listWorkers")
async def list_workers(services: ServicesDep, _: OperatorDep) -> WorkerList:
    """Every worker with a lease, live or lost, with the load its last heartbeat told."""
    return WorkerList(
        data=[
            _worker(view, is_drained=services.switches.is_drained(view.pool))
            for view in services.fleet.workers()
        ]
    )


def _worker(view: WorkerView, *, is_drained: bool) -> Worker:
    load = (
        None
        if view.load is None
        else WorkerLoad.model_validate_json(msgspec.json.encode(view.load))
    )
    return Worker(
        id=view.id,
        pool=view.pool,
        role=view.role.value,
        base=view.base_name,
        state=view.state.value,
        is_accepting=view.is_accepting,
        is_drained=is_drained,
        incarnation=view.incarnation,
        process_id=view.process_id,
        in_flight=view.in_flight,
        pool_pages=view.limits.pool_pages,
        page_bytes=view.limits.page_bytes,
        load=load,
    )
