"""Signing in through an identity provider, and which ways of signing in there are."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.people import client_of, give_cookie, public_address, refuse_other_origins
from loraplex.api.services import Services, ServicesDep
from loraplex.api.tenant.people_schemas import OidcBeginning, OidcStart, SignInMethods
from loraplex.api.validation import read_json, validate
from loraplex.engine.protocol.errors import DomainError
from loraplex.platform.people.oidc.errors import LoginNotBegun, LoginRefused, OidcOff
from loraplex.platform.people.oidc.logins import OidcLogins

router = APIRouter(prefix="/api/v1/session", tags=["session"], responses=PROBLEM)

STATE_COOKIE = "lpx_oidc"
CALLBACK = "/api/v1/session/oidc/callback"
STATE_SECONDS = 600
LONGEST_CODE = 4096


@router.get("/methods", operation_id="listSignInMethods")
async def list_sign_in_methods(services: ServicesDep) -> SignInMethods:
    """The ways to sign in here. A key and a password always work."""
    is_on = services.oidc is not None
    return SignInMethods(
        identity_provider=services.settings.oidc_name if is_on else None,
    )


@router.post("/oidc", operation_id="beginOidc", openapi_extra=json_body(OidcStart))
async def begin_oidc(request: Request, response: Response, services: ServicesDep) -> OidcBeginning:
    """Where to send the browser to sign in. It comes back here, with the cookie this sets.

    The cookie is of SameSite=Lax, as the way back begins at the provider's.
    """
    refuse_other_origins(request)
    start = validate(OidcStart, await read_json(request))
    begun = await _oidc(services).begin(
        f"{public_address(request)}{CALLBACK}",
        next_path=start.next,
        invitation=start.invitation,
    )
    response.set_cookie(
        STATE_COOKIE,
        begun.state,
        max_age=STATE_SECONDS,
        path=CALLBACK,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return OidcBeginning(url=begun.address)


@router.get(
    "/oidc/callback",
    operation_id="finishOidc",
    status_code=303,
    response_class=RedirectResponse,
)
async def finish_oidc(
    request: Request,
    services: ServicesDep,
    state: Annotated[str, Query(max_length=LONGEST_CODE)] = "",
    code: Annotated[str, Query(max_length=LONGEST_CODE)] = "",
    error: Annotated[str, Query(max_length=LONGEST_CODE)] = "",
) -> Response:
    """Where the identity provider sends a browser back to: signed in, or told why not."""
    answer: Response
    try:
        if not state or request.cookies.get(STATE_COOKIE) != state:
            raise LoginNotBegun
        if error or not code:
            await _oidc(services).give_up(state)
            raise LoginRefused("the provider said no")
        returned = await _oidc(services).finish(state, code, client_of(request))
    except DomainError as refused:
        # A person looks at this, so it is a page: the sign-in page knows the code's words.
        answer = RedirectResponse(f"/login?{urlencode({'refused': refused.code})}", 303)
    else:
        answer = RedirectResponse(returned.next_path, 303)
        give_cookie(request, answer, returned.token)
    answer.delete_cookie(STATE_COOKIE, path=CALLBACK, httponly=True, samesite="lax")
    return answer


def _oidc(services: Services) -> OidcLogins:
    if services.oidc is None:
        raise OidcOff
    return services.oidc
