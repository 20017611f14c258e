"""Who acts in a request, for the audit log."""

from fastapi import Request

from loraplex.api.authentication import client_address
from loraplex.platform.audit.actors import Actor, ActorKind
from loraplex.platform.tenancy.principals import OperatorPrincipal, Principal


def actor_of(request: Request, principal: Principal) -> Actor:
    """The caller as the credential says, with the socket's address and the request's id."""
    kind = ActorKind.OPERATOR if isinstance(principal, OperatorPrincipal) else ActorKind.KEY
    label = principal.name if isinstance(principal, OperatorPrincipal) else principal.tenant_name
    return Actor(kind, principal.key_id, label, client_address(request), request_id_of(request))


def nobody(request: Request, label: str) -> Actor:
    """A caller without a credential, as one whose sign-in failed; `label` is what they called
    themselves."""
    return Actor(ActorKind.PERSON, None, label, client_address(request), request_id_of(request))


def request_id_of(request: Request) -> str:
    """The id that the answer carries as `x-request-id`."""
    request_id: str = request.state.request_id
    return request_id
