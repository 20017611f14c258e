"""GET /api/v1/key: a program asks what its own key is and may do."""

from fastapi import APIRouter

from loraplex.api.authentication import TenantDep
from loraplex.api.documentation import PROBLEM
from loraplex.api.key_answers import models_shown
from loraplex.api.key_schemas import CallerKey
from loraplex.api.services import ServicesDep
from loraplex.platform.tenancy import key_rows

router = APIRouter(prefix="/api/v1/key", tags=["keys"], responses=PROBLEM)


@router.get("", operation_id="getCallerKey", summary="Ask what the caller's own key may do")
async def get_caller_key(services: ServicesDep, principal: TenantDep) -> CallerKey:
    """The credential that asks: whose it is, what it may do and until when. Needs no scope."""
    view = None
    if principal.key_id is not None:
        async with services.database.unit_of_work(principal.tenant_id) as session:
            _, view = await key_rows.find_key(session, principal.tenant_id, principal.key_id)
    return CallerKey(
        kind="person" if view is None else "key",
        id=None if view is None else str(view.id),
        label=principal.label,
        tenant=principal.tenant_name,
        member_id=None if principal.member_id is None else str(principal.member_id),
        role=principal.role,
        scopes=sorted(principal.scopes),
        models=models_shown(principal.models),
        expires_at=None if view is None else view.expires_at,
        last_used_at=None if view is None else view.last_used_at,
    )
