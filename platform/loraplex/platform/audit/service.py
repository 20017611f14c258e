"""Writes the audit log, in the transaction of the change that it tells of."""

from collections.abc import Mapping

from sqlalchemy import bindparam, insert, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.tenancy.identity import TenantId

# Row security lets role `app` write its tenant's rows alone; what is nobody's has a function.
RECORD_PLATFORM_EVENT = text(
    """
    SELECT gateway.record_platform_event(
        :action, :actor_kind, :actor_id, :actor_label, :address, :request_id,
        :target_kind, :target_id, :target_name, :before, :after)
    """
).bindparams(
    bindparam("before", type_=JSONB(none_as_null=True)),
    bindparam("after", type_=JSONB(none_as_null=True)),
)


async def record(
    session: AsyncSession,
    actor: Actor,
    action: str,
    *,
    tenant_id: TenantId | None,
    target: Target,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
) -> None:
    """Add one line; it is there when this transaction commits, and never without it.

    `action` is `noun.verb`, as `api_key.created`. `before` and `after` are JSON of what changed:
    what did not exist is None. Never a secret, a prompt or a file's content. Works on roles `app`
    (for the tenant of its unit of work, or None) and `system`.
    """
    values = {
        "action": action,
        "actor_kind": actor.kind.value,
        "actor_id": actor.id,
        "actor_label": actor.label,
        "address": actor.address,
        "request_id": actor.request_id,
        "target_kind": target.kind,
        "target_id": None if target.id is None else str(target.id),
        "target_name": target.name,
        "before": None if before is None else dict(before),
        "after": None if after is None else dict(after),
    }
    if tenant_id is None:
        await session.execute(RECORD_PLATFORM_EVENT, values)
    else:
        await session.execute(insert(AuditEvent).inline().values(tenant_id=tenant_id, **values))
