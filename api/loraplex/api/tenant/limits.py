"""A tenant's limits: what is in force and used, and what its keys and members may use of it."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request

from loraplex.api.acting import actor_of
from loraplex.api.authentication import requires
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.limit_schemas import LimitsList, SubjectLimits, limits_used, subject_limits
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.api.validation import read_json, validate
from loraplex.platform.admission.limits import change_limits, page_of_limits
from loraplex.platform.admission.models import Subject
from loraplex.platform.people.members import find_member
from loraplex.platform.tenancy.key_rows import find_key
from loraplex.platform.tenancy.principals import Scope, TenantPrincipal

router = APIRouter(prefix="/api/v1", tags=["limits"], responses=PROBLEM)

ReaderDep = Annotated[TenantPrincipal, Depends(requires(Scope.LIMITS_READ))]
WriterDep = Annotated[TenantPrincipal, Depends(requires(Scope.LIMITS_WRITE))]


@router.get("/limits", operation_id="listLimits")
async def list_limits(services: ServicesDep, principal: ReaderDep, wanted: PageDep) -> LimitsList:
    """The limits of the tenant and of every model, member and key that has some, with their use."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        page = await page_of_limits(session, principal.tenant_id, wanted)
    return LimitsList(data=list(map(limits_used, page.items)), next_cursor=page.next_cursor)


@router.put(
    "/keys/{key}/limits", operation_id="putKeyLimits", openapi_extra=json_body(SubjectLimits)
)
async def put_key_limits(
    key: UUID, request: Request, services: ServicesDep, principal: WriterDep
) -> SubjectLimits:
    """Set a key's limits, all of them; none may be above the tenant's."""
    order = validate(SubjectLimits, await read_json(request))
    async with services.database.unit_of_work(principal.tenant_id) as session:
        await find_key(session, principal.tenant_id, key)
        row = await change_limits(
            session,
            actor_of(request, principal),
            principal.tenant_id,
            Subject.KEY,
            str(key),
            order.model_dump(),
        )
        return subject_limits(row)


@router.put(
    "/members/{member}/limits",
    operation_id="putMemberLimits",
    openapi_extra=json_body(SubjectLimits),
)
async def put_member_limits(
    member: UUID, request: Request, services: ServicesDep, principal: WriterDep
) -> SubjectLimits:
    """Set a member's limits, all of them: of the member's keys and sessions together."""
    order = validate(SubjectLimits, await read_json(request))
    async with services.database.unit_of_work(principal.tenant_id) as session:
        await find_member(session, principal.tenant_id, member)
        row = await change_limits(
            session,
            actor_of(request, principal),
            principal.tenant_id,
            Subject.MEMBER,
            str(member),
            order.model_dump(),
        )
        return subject_limits(row)
