"""Who acts in a request, for the audit log."""

from collections.abc import Mapping

from fastapi import Request
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.api.authentication import client_address
from loraplex.platform.audit.actors import Actor, ActorKind, Target
from loraplex.platform.audit.service import record
from loraplex.platform.tenancy.principals import OperatorPrincipal, Principal, TenantPrincipal


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


async def record_own(
    session: AsyncSession,
    request: Request,
    principal: TenantPrincipal,
    action: str,
    target: Target,
    *,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
) -> None:
    """Note in the audit log, in the change's transaction, what the caller did to its own tenant."""
    await record(
        session,
        actor_of(request, principal),
        action,
        tenant_id=principal.tenant_id,
        target=target,
        before=before,
        after=after,
    )
