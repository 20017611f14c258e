"""Operators look after people: operators among them, accounts, forgotten passwords."""

from uuid import UUID

from fastapi import APIRouter, Request
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.api.acting import actor_of
from loraplex.api.admin.errors import system_of
from loraplex.api.admin.tenant_schemas import (
    NewOperator,
    PersonChange,
    PersonDetails,
    PersonList,
    PersonPlace,
)
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.pages import PageDep
from loraplex.api.people import link_of
from loraplex.api.services import Services, ServicesDep
from loraplex.api.tenant.invitations import invitation_shown
from loraplex.api.tenant.people_schemas import NewInvitation
from loraplex.api.validation import read_json, validate
from loraplex.platform.audit.actors import Target
from loraplex.platform.audit.service import record
from loraplex.platform.people.models import User
from loraplex.platform.tenancy.principals import OperatorRole

router = APIRouter(prefix="/api/v1/admin/people", tags=["admin"], responses=PROBLEM)


@router.get("", operation_id="listPeople")
async def list_people(services: ServicesDep, _: OperatorDep, wanted: PageDep) -> PersonList:
    """Everybody who may sign in, by e-mail."""
    async with system_of(services).unit_of_work() as session:
        page = await services.people_administration.page(session, wanted)
        shown = await _shown(services, session, page.items)
    return PersonList(data=shown, next_cursor=page.next_cursor)


@router.post(
    "", operation_id="inviteOperator", status_code=201, openapi_extra=json_body(NewOperator)
)
async def invite_operator(
    request: Request, services: ServicesDep, operator: OperatorDep
) -> NewInvitation:
    """Make a link by which somebody becomes an operator. Send it to them: nobody else will."""
    order = validate(NewOperator, await read_json(request))
    role = OperatorRole(order.operator_role)
    async with system_of(services).unit_of_work() as session:
        row, token = await services.people_administration.invite_operator(
            session, order.email, role, operator.name
        )
        await record(
            session,
            actor_of(request, operator),
            "operator.invited",
            tenant_id=None,
            target=Target("invitation", row.id, row.email),
            after={"operator_role": role.value},
        )
    return NewInvitation(
        **invitation_shown(row).model_dump(), token=token, link=link_of(request, token)
    )


@router.get("/{person}", operation_id="getPerson")
async def get_person(person: UUID, services: ServicesDep, _: OperatorDep) -> PersonDetails:
    """One person, and where they are a member."""
    async with system_of(services).unit_of_work() as session:
        user = await services.people_administration.find(session, person)
        return (await _shown(services, session, [user]))[0]


@router.patch("/{person}", operation_id="changePerson", openapi_extra=json_body(PersonChange))
async def change_person(
    person: UUID, request: Request, services: ServicesDep, operator: OperatorDep
) -> PersonDetails:
    """Make somebody an operator or none, or refuse them everywhere; their sessions end with that.

    The last admin stays one.
    """
    order = validate(PersonChange, await read_json(request))
    people = services.people_administration
    async with system_of(services).unit_of_work() as session:
        user = await people.find(session, person)
        before = _state(user)
        if order.operator_role is not None:
            is_none = order.operator_role == "none"
            await people.set_operator_role(
                session, user, None if is_none else OperatorRole(order.operator_role)
            )
        if order.is_disabled is not None:
            await people.set_disabled(session, user, order.is_disabled)
        if _state(user) != before:
            await record(
                session,
                actor_of(request, operator),
                "person.changed",
                tenant_id=None,
                target=Target("person", user.id, user.email),
                before=before,
                after=_state(user),
            )
        return (await _shown(services, session, [user]))[0]


@router.post("/{person}/reset-password", operation_id="resetPassword", status_code=201)
async def reset_password(
    person: UUID, request: Request, services: ServicesDep, operator: OperatorDep
) -> NewInvitation:
    """Make a link by which somebody chooses a new password; the old one works until then."""
    async with system_of(services).unit_of_work() as session:
        user = await services.people_administration.find(session, person)
        row, token = await services.people_administration.reset_password(
            session, user, operator.name
        )
        await record(
            session,
            actor_of(request, operator),
            "password.reset",
            tenant_id=None,
            target=Target("person", user.id, user.email),
        )
    return NewInvitation(
        **invitation_shown(row).model_dump(), token=token, link=link_of(request, token)
    )


def _state(user: User) -> dict[str, object]:
    return {"operator_role": user.operator_role, "is_disabled": user.disabled_at is not None}


async def _shown(
    services: Services, session: AsyncSession, users: list[User]
) -> list[PersonDetails]:
    places = await services.people_administration.memberships(session, [one.id for one in users])
    return [
        PersonDetails.model_validate(
            {
                "id": str(user.id),
                "email": user.email,
                "display_name": user.display_name,
                **_state(user),
                "has_password": user.password_hash is not None,
                "tenants": [
                    PersonPlace(tenant=tenant, role=role) for tenant, role in places[user.id]
                ],
                "last_signed_in_at": user.last_signed_in_at,
                "created_at": user.created_at,
            }
        )
        for user in users
    ]
