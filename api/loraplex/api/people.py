"""People at the edge: their cookie, where they ask from, and links to give them."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response

from loraplex.api.acting import request_id_of
from loraplex.api.authentication import (
    SAFE_METHODS,
    SESSION_COOKIE,
    client_address,
    cookie,
    is_same_origin,
    refuse_cross_site,
)
from loraplex.api.refusals import CrossSiteRequest, MissingKey
from loraplex.api.services import ServicesDep
from loraplex.platform.people.errors import NotAPerson
from loraplex.platform.people.invitations import link_path
from loraplex.platform.people.signed_in import Client, SignedInPerson
from loraplex.platform.people.tokens import is_persons
from loraplex.platform.settings import Settings


@dataclass(frozen=True, slots=True)
class PersonalSession:
    """Somebody who signed in as themselves, and the token of the session they did it in."""

    token: str
    person: SignedInPerson


async def personal_session(
    request: Request, services: ServicesDep, token: Annotated[str | None, Depends(cookie)]
) -> PersonalSession:
    """The person who asks; raises MissingKey, NotAPerson, CrossSiteRequest and InvalidSession."""
    if "authorization" in request.headers:
        raise NotAPerson
    if token is None:
        raise MissingKey
    if not is_persons(token):
        raise NotAPerson
    if request.method not in SAFE_METHODS:
        refuse_cross_site(request)
    return PersonalSession(token, await services.people.find(token))


PersonDep = Annotated[PersonalSession, Depends(personal_session)]


def client_of(request: Request) -> Client:
    """Where the request came from."""
    return Client(
        client_address(request), request.headers.get("user-agent", ""), request_id_of(request)
    )


def refuse_other_origins(request: Request) -> None:
    """Raise CrossSiteRequest when a page of another site sent what needs no credential yet."""
    if request.headers.get("origin") is not None and not is_same_origin(request):
        raise CrossSiteRequest(
            "The request comes from another origin.", field="Origin", rule="the host asked"
        )


def give_cookie(request: Request, response: Response, token: str) -> None:
    """Have the browser keep a session's token where no script and no other site reaches it."""
    response.set_cookie(
        SESSION_COOKIE,
        token,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def take_cookie(response: Response) -> None:
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")


def link_of(request: Request, token: str) -> str:
    """The address by which a person follows an invitation."""
    return f"{public_address(request)}{link_path(token)}"


def public_address(request: Request) -> str:
    """Where this browser, or another, reaches the platform."""
    settings: Settings = request.app.state.settings
    return settings.public_url or str(request.base_url).rstrip("/")
