"""A browser's session: a key, or a person's password, exchanged for an HttpOnly cookie."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.security import HTTPAuthorizationCredentials

from loraplex.api.authentication import bearer, cookie, refuse_cross_site, signed_in
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.people import (
    PersonDep,
    client_of,
    give_cookie,
    refuse_other_origins,
    take_cookie,
)
from loraplex.api.refusals import InvalidValue
from loraplex.api.services import Services, ServicesDep
from loraplex.api.tenant.people_schemas import (
    PasswordChange,
    PasswordSignIn,
    Person,
    Place,
    PlaceChoice,
    Session,
    SignIn,
)
from loraplex.api.validation import read_json, validate
from loraplex.platform.people.signed_in import SignedInPerson
from loraplex.platform.people.tokens import is_persons
from loraplex.platform.tenancy.models import TenantState
from loraplex.platform.tenancy.principals import SCOPES_OF, Principal, TenantPrincipal

router = APIRouter(prefix="/api/v1/session", tags=["session"], responses=PROBLEM)


@router.post("", operation_id="signIn", openapi_extra=json_body(SignIn, PasswordSignIn))
async def sign_in(request: Request, response: Response, services: ServicesDep) -> Session:
    """Exchange a key, or a person's e-mail and password, for a session's cookie."""
    refuse_other_origins(request)
    body = await read_json(request)
    if {"email", "password"} & body.keys():
        login = validate(PasswordSignIn, body)
        token, person = await services.people.sign_in(
            login.email, login.password, client_of(request)
        )
        give_cookie(request, response, token)
        return await session_of_person(services, token, person)
    by_key = validate(SignIn, body)
    address = client_of(request).address
    token, principal = await services.authenticator.open_session(by_key.api_key, address)
    give_cookie(request, response, token)
    return _session_of_key(services, principal)


@router.get("", operation_id="getSession")
async def get_session(
    request: Request,
    services: ServicesDep,
    key: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    token: Annotated[str | None, Depends(cookie)],
) -> Session:
    """Who is signed in. A person is told even while their tenant is suspended."""
    if key is None and token is not None and is_persons(token):
        return await session_of_person(services, token, await services.people.find(token))
    return _session_of_key(services, await signed_in(request, services, key, token))


@router.patch("", operation_id="chooseTenant", openapi_extra=json_body(PlaceChoice))
async def choose_tenant(request: Request, services: ServicesDep, session: PersonDep) -> Session:
    """Go to another tenant that the person is a member of, or among the operators."""
    choice = validate(PlaceChoice, await read_json(request))
    if (choice.tenant is None) == (choice.operator is None):
        raise InvalidValue(
            "Give either `tenant` or `operator`.", field="tenant", rule="exactly one of the two"
        )
    person = await services.people.choose_place(session.token, choice.tenant)
    return await session_of_person(services, session.token, person)


@router.delete("", operation_id="signOut", status_code=204)
async def sign_out(
    request: Request,
    response: Response,
    services: ServicesDep,
    token: Annotated[str | None, Depends(cookie)],
) -> None:
    """End the session; there need not be one."""
    if token is not None:
        refuse_cross_site(request)
        if is_persons(token):
            await services.people.close(token)
        else:
            await services.authenticator.close_session(token)
    take_cookie(response)


@router.post("/password", operation_id="changePassword", openapi_extra=json_body(PasswordChange))
async def change_password(
    request: Request, response: Response, services: ServicesDep, session: PersonDep
) -> Session:
    """Have another password. Every session of the person ends but this one, which goes on anew."""
    change = validate(PasswordChange, await read_json(request))
    token = await services.people.change_password(
        session.person, change.current_password, change.new_password, client_of(request)
    )
    give_cookie(request, response, token)
    return await session_of_person(services, token, await services.people.find(token))


async def session_of_person(services: Services, token: str, person: SignedInPerson) -> Session:
    """What a person's session is told as."""
    place = person.place
    return Session(
        kind="operator" if place is None else "tenant",
        tenant=None if place is None else place.tenant_name,
        tenant_state=None if place is None else place.tenant_state,
        base_model=services.table.base_name,
        role=str(person.operator_role if place is None else place.role),
        scopes=[] if place is None else sorted(SCOPES_OF[place.role]),
        person=Person(
            id=str(person.user_id),
            email=person.email,
            display_name=person.display_name,
            operator_role=None if person.operator_role is None else person.operator_role.value,
            has_password=person.has_password,
        ),
        places=[
            Place(tenant=one.tenant_name, state=one.tenant_state, role=one.role.value)
            for one in await services.people.places(token)
        ],
    )


def _session_of_key(services: Services, principal: Principal) -> Session:
    is_tenants = isinstance(principal, TenantPrincipal)
    return Session(
        kind="tenant" if is_tenants else "operator",
        tenant=principal.tenant_name if isinstance(principal, TenantPrincipal) else None,
        tenant_state=TenantState.ACTIVE.value if is_tenants else None,
        base_model=services.table.base_name,
        role=principal.role.value,
        scopes=sorted(principal.scopes) if isinstance(principal, TenantPrincipal) else [],
        person=None,
        places=[],
    )
