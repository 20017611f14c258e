"""Who acts in a request, for the audit log."""

from fastapi import Request

from loraplex.api.authentication import client_address
from loraplex.platform.audit.actors import Actor, ActorKind
from loraplex.platform.tenancy.principals import OperatorPrincipal, Principal


def actor_of(request: Request, principal: Principal) -> Actor:
    """The caller as the credential says, with the socket's address and the request's id.

    A key acts as itself, also one that a person made; a session acts as the person.
    """
    address, request_id = client_address(request), request_id_of(request)
    if isinstance(principal, OperatorPrincipal):
        who = principal.key_id or principal.user_id
        return Actor(ActorKind.OPERATOR, who, principal.name, address, request_id)
    if principal.key_id is None:
        return Actor(ActorKind.PERSON, principal.member_id, principal.label, address, request_id)
    return Actor(ActorKind.KEY, principal.key_id, principal.label, address, request_id)


def nobody(request: Request, label: str) -> Actor:
    """A caller without a credential, as one whose sign-in failed; `label` is what they called
    themselves."""
    return Actor(ActorKind.PERSON, None, label, client_address(request), request_id_of(request))


def request_id_of(request: Request) -> str:
    """The id that the answer carries as `x-request-id`."""
    request_id: str = request.state.request_id
    return request_id
