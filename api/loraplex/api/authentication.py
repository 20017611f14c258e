"""Who asks: a bearer key, or the cookie a browser got for one. Nothing else makes a principal."""

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer

from loraplex.api.idempotency import begin_keyed_request
from loraplex.api.refusals import CrossSiteRequest, MissingKey, MissingScope, WrongRole
from loraplex.api.services import ServicesDep
from loraplex.platform.logs import bind_tenant
from loraplex.platform.people.tokens import is_persons
from loraplex.platform.tenancy.principals import (
    OperatorPrincipal,
    OperatorRole,
    Principal,
    Scope,
    TenantPrincipal,
)

SESSION_COOKIE = "lpx_session"
CSRF_HEADER = "X-Loraplex-CSRF"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

bearer = HTTPBearer(auto_error=False, scheme_name="ApiKey", description="An API key.")
cookie = APIKeyCookie(
    name=SESSION_COOKIE,
    auto_error=False,
    scheme_name="Session",
    description=f"A browser's session. Unsafe methods also need `{CSRF_HEADER}: 1`.",
)


async def signed_in(
    request: Request,
    services: ServicesDep,
    key: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    token: Annotated[str | None, Depends(cookie)],
) -> Principal:
    """The caller; raises MissingKey, CrossSiteRequest or what the Authenticator raises."""
    if key is not None:
        return await services.authenticator.authenticate(key.credentials, client_address(request))
    if token is None:
        raise MissingKey
    if request.method not in SAFE_METHODS:
        refuse_cross_site(request)
    if is_persons(token):
        return (await services.people.find(token)).principal
    return await services.authenticator.session(token)


@dataclass(frozen=True)
class Requires:
    """A route's guard: a tenant's credential that holds `scope`, or any where that is None.

    Called as a dependency it gives the principal; it raises WrongRole, MissingScope and, once the
    caller is known to be allowed, what an idempotency key may raise.
    """

    scope: Scope | None

    async def __call__(
        self,
        request: Request,
        services: ServicesDep,
        principal: Annotated[Principal, Depends(signed_in)],
    ) -> TenantPrincipal:
        if not isinstance(principal, TenantPrincipal):
            raise WrongRole(
                "This route is for tenants; the credential is an operator's.",
                field="Authorization",
                rule="a tenant's credential",
            )
        if self.scope is not None and self.scope not in principal.scopes:
            raise MissingScope(self.scope)
        bind_tenant(principal.tenant_id)
        await begin_keyed_request(services.idempotency, principal, request)
        return principal


def requires(scope: Scope) -> Requires:
    """The dependency of a tenant's route: `Depends(requires(Scope.USAGE_READ))`."""
    return Requires(scope)


async def operator(
    request: Request, principal: Annotated[Principal, Depends(signed_in)]
) -> OperatorPrincipal:
    """An operator: an admin, or whoever only reads; raises WrongRole."""
    if not isinstance(principal, OperatorPrincipal):
        raise WrongRole(
            "This route is for operators; the credential is a tenant's.",
            field="Authorization",
            rule="an operator's credential",
        )
    if principal.role is not OperatorRole.ADMIN and request.method not in SAFE_METHODS:
        raise WrongRole(
            f"An operator of role {principal.role} changes nothing.",
            field="Authorization",
            rule=f"an operator of role {OperatorRole.ADMIN}",
        )
    return principal


TenantDep = Annotated[TenantPrincipal, Depends(Requires(None))]
"""For what every credential of a tenant may ask."""
SignedInDep = Annotated[Principal, Depends(signed_in)]
OperatorDep = Annotated[OperatorPrincipal, Depends(operator)]
ModelCallerDep = Annotated[TenantPrincipal, Depends(requires(Scope.MODELS_CALL))]
AdapterReaderDep = Annotated[TenantPrincipal, Depends(requires(Scope.ADAPTERS_READ))]
AdapterWriterDep = Annotated[TenantPrincipal, Depends(requires(Scope.ADAPTERS_WRITE))]
WebhookReaderDep = Annotated[TenantPrincipal, Depends(requires(Scope.WEBHOOKS_READ))]
WebhookWriterDep = Annotated[TenantPrincipal, Depends(requires(Scope.WEBHOOKS_WRITE))]


def client_address(request: Request) -> str:
    """The peer of the socket; what a header claims counts only behind a trusted proxy."""
    return request.client.host if request.client else "local"


def refuse_cross_site(request: Request) -> None:
    """Raise unless the page that sent this is ours: our header, and an Origin that is our host."""
    if request.headers.get(CSRF_HEADER) != "1":
        raise CrossSiteRequest(
            f"Requests with a session cookie need the header `{CSRF_HEADER}: 1`.",
            field=CSRF_HEADER,
            rule="1",
        )
    if not is_same_origin(request):
        raise CrossSiteRequest(
            "The request comes from another origin.", field="Origin", rule="the host asked"
        )


def is_same_origin(request: Request) -> bool:
    """Whether the Origin names the host that was asked; the scheme may differ behind TLS."""
    origin, host = request.headers.get("origin"), request.headers.get("host")
    try:
        return bool(origin and host) and urlsplit(origin).netloc == host
    except ValueError:  # no URL at all
        return False
