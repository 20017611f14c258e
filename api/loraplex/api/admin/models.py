"""GET /api/v1/admin/models: the base models there are, and who uses them."""

from collections import Counter
from datetime import datetime

from fastapi import APIRouter

from loraplex.adapters_registry.versions.base_list import page_of_bases
from loraplex.api.admin.errors import system_of
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM
from loraplex.api.pages import PageDep
from loraplex.api.schemas import WireModel
from loraplex.api.services import ServicesDep
from loraplex.platform.pools.views import WorkerState

router = APIRouter(prefix="/api/v1/admin", tags=["admin"], responses=PROBLEM)


class RegisteredModel(WireModel):
    """A base model that workers have served."""

    name: str
    digest: str
    registered_at: datetime
    adapters: int
    """Of all tenants, without deleted ones."""
    live_workers: int
    """As the gateway that answers sees them; without any, calls are refused."""


class RegisteredModelList(WireModel):
    data: list[RegisteredModel]
    next_cursor: str | None


@router.get("/models", operation_id="listBaseModels", summary="List base models")
async def list_base_models(
    services: ServicesDep, _: OperatorDep, wanted: PageDep
) -> RegisteredModelList:
    """Every base model that any worker has served, by name."""
    async with system_of(services).unit_of_work() as session:
        page = await page_of_bases(session, wanted)
    live = Counter(
        view.base_name for view in services.fleet.workers() if view.state is WorkerState.LIVE
    )
    return RegisteredModelList(
        data=[
            RegisteredModel(
                name=base.name,
                digest=base.digest,
                registered_at=base.registered_at,
                adapters=base.adapters,
                live_workers=live[base.name],
            )
            for base in page.items
        ],
        next_cursor=page.next_cursor,
    )
