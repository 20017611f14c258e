"""Who acts in a request, for the audit log."""

from fastapi import Request

from loraplex.api.authentication import client_address
from loraplex.platform.audit.actors import Actor, ActorKind
from loraplex.platform.tenancy.principals import OperatorPrincipal, Principal


def actor_of(request: Request, principal: Principal) -> Actor:
    """The caller as the credential says, with the socket's address and the request's id."""
    if isinstance(principal, OperatorPrincipal):
        kind, label = ActorKind.OPERATOR, principal.name
        acting = principal.key_id or principal.user_id
    elif principal.key_id is None:
        kind, label, acting = ActorKind.PERSON, principal.label, principal.member_id
    else:
        kind, label, acting = ActorKind.KEY, principal.label, principal.key_id
    return Actor(kind, acting, label, client_address(request), request_id_of(request))


def request_id_of(request: Request) -> str:
    """The id that the answer carries as `x-request-id`."""
    request_id: str = request.state.request_id
    return request_id
