"""Invitations: a tenant sees and withdraws its own; whoever holds a link looks and follows it."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response

from loraplex.api.acting import actor_of
from loraplex.api.authentication import cookie, requires
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.pages import PageDep
from loraplex.api.people import client_of, give_cookie, refuse_other_origins
from loraplex.api.services import ServicesDep
from loraplex.api.tenant.people_schemas import (
    Acceptance,
    Invitation,
    InvitationList,
    InvitationToken,
    Offer,
    Session,
)
from loraplex.api.tenant.session import session_of_person
from loraplex.api.validation import read_json, validate
from loraplex.platform.audit.actors import Target
from loraplex.platform.audit.service import record
from loraplex.platform.people.models import Invitation as InvitationRow
from loraplex.platform.people.tokens import is_persons
from loraplex.platform.tenancy.principals import Scope, TenantPrincipal

router = APIRouter(prefix="/api/v1/invitations", tags=["members"], responses=PROBLEM)
anybodys = APIRouter(prefix="/api/v1/session/invitation", tags=["session"], responses=PROBLEM)

ReaderDep = Annotated[TenantPrincipal, Depends(requires(Scope.MEMBERS_READ))]
WriterDep = Annotated[TenantPrincipal, Depends(requires(Scope.MEMBERS_WRITE))]


@router.get("", operation_id="listInvitations")
async def list_invitations(
    services: ServicesDep, principal: ReaderDep, wanted: PageDep
) -> InvitationList:
    """The links that still work, oldest first. Their tokens are not told again."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        page = await services.invitations.open_page(session, principal.tenant_id, wanted)
    return InvitationList(
        data=[invitation_shown(one) for one in page.items], next_cursor=page.next_cursor
    )


@router.delete("/{invitation}", operation_id="withdrawInvitation", status_code=204)
async def withdraw_invitation(
    invitation: UUID, request: Request, services: ServicesDep, principal: WriterDep
) -> None:
    """Make a link lead nowhere."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        row = await services.invitations.withdraw(session, principal.tenant_id, invitation)
        await record(
            session,
            actor_of(request, principal),
            "invitation.withdrawn",
            tenant_id=principal.tenant_id,
            target=Target("invitation", row.id, row.email),
            before={"role": row.role},
        )


@anybodys.post("/look", operation_id="lookAtInvitation", openapi_extra=json_body(InvitationToken))
async def look_at_invitation(request: Request, services: ServicesDep) -> Offer:
    """What an invitation's link leads to; the token is the credential."""
    refuse_other_origins(request)
    body = validate(InvitationToken, await read_json(request))
    offer = await services.accepting.look(body.token)
    kind = "password" if offer.is_new_password else "tenant" if offer.role else "operator"
    return Offer.model_validate(
        {
            "kind": kind,
            "email": offer.email,
            "tenant": offer.tenant_name,
            "role": None if offer.is_new_password else str(offer.role or offer.operator_role),
            "expires_at": offer.expires_at,
            "has_account": offer.has_account,
        }
    )


@anybodys.post("", operation_id="acceptInvitation", openapi_extra=json_body(Acceptance))
async def accept_invitation(
    request: Request,
    response: Response,
    services: ServicesDep,
    cookie_token: Annotated[str | None, Depends(cookie)],
) -> Session:
    """Follow an invitation's link, once, and be signed in where it leads."""
    refuse_other_origins(request)
    body = validate(Acceptance, await read_json(request))
    own = cookie_token if cookie_token is not None and is_persons(cookie_token) else None
    token, person = await services.accepting.accept(
        body.token,
        client_of(request),
        password=body.password,
        display_name=body.display_name,
        session_token=own,
    )
    give_cookie(request, response, token)
    return await session_of_person(services, token, person)


def invitation_shown(row: InvitationRow) -> Invitation:
    return Invitation(
        id=str(row.id),
        email=row.email,
        role=row.role or row.operator_role,
        invited_by=row.invited_by,
        expires_at=row.expires_at,
        created_at=row.created_at,
    )
