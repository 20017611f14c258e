"""A browser's session: a key exchanged for an HttpOnly cookie."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from loraplex.api.authentication import (
    SESSION_COOKIE,
    SignedInDep,
    client_address,
    cookie,
    is_same_origin,
    refuse_cross_site,
)
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.refusals import CrossSiteRequest
from loraplex.api.services import Services, ServicesDep
from loraplex.api.tenant.schemas import Session, SignIn
from loraplex.api.validation import read_json, validate
from loraplex.platform.tenancy.principals import Principal, TenantPrincipal

router = APIRouter(prefix="/api/v1/session", tags=["session"], responses=PROBLEM)


@router.post("", operation_id="signIn", openapi_extra=json_body(SignIn))
async def sign_in(request: Request, response: Response, services: ServicesDep) -> Session:
    """Exchange a key, a tenant's or an operator's, for a session's cookie."""
    if request.headers.get("origin") is not None and not is_same_origin(request):
        raise CrossSiteRequest(
            "The request comes from another origin.", field="Origin", rule="the host asked"
        )
    body = validate(SignIn, await read_json(request))
    token, principal = await services.authenticator.open_session(
        body.api_key, client_address(request)
    )
    response.set_cookie(
        SESSION_COOKIE,
        token,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return _session(services, principal)


@router.get("", operation_id="getSession")
async def get_session(services: ServicesDep, principal: SignedInDep) -> Session:
    """Who is signed in."""
    return _session(services, principal)


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
        await services.authenticator.close_session(token)
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")


def _session(services: Services, principal: Principal) -> Session:
    is_tenant = isinstance(principal, TenantPrincipal)
    return Session(
        kind="tenant" if is_tenant else "operator",
        tenant=principal.tenant_name if isinstance(principal, TenantPrincipal) else None,
        base_model=services.table.base_name,
    )
