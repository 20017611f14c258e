"""GET /v1/models: what this key can call, and nothing else."""

from fastapi import APIRouter

from loraplex.adapters_registry.versions.service import PLATFORM
from loraplex.adapters_registry.versions.views import CallableModel
from loraplex.api.authentication import ModelCallerDep
from loraplex.api.documentation import OPENAI_ERROR
from loraplex.api.openai.answer_schemas import Model, ModelList
from loraplex.api.services import ServicesDep

router = APIRouter(prefix="/v1", tags=["openai"], responses=OPENAI_ERROR)


@router.get("/models", operation_id="listModels")
async def list_models(services: ServicesDep, principal: ModelCallerDep) -> ModelList:
    """Every base model and adapter this key can call."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        found = await services.catalogue.callable_models(session, principal)
    return ModelList(data=[_model(one) for one in found])


@router.get("/models/{model:path}", operation_id="getModel")
async def get_model(model: str, services: ServicesDep, principal: ModelCallerDep) -> Model:
    """One model by any name it can be called by; the id is its canonical one."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        found = await services.catalogue.resolve(session, principal, model)
    if found.adapter_name is None:
        return Model(id=found.id, created=found.created, owned_by=PLATFORM, parent=None)
    owner, parent = principal.tenant_name, found.base_name
    return Model(id=found.id, created=found.created, owned_by=owner, parent=parent)


def _model(one: CallableModel) -> Model:
    return Model(id=one.id, created=one.created, owned_by=one.owned_by, parent=one.parent)
