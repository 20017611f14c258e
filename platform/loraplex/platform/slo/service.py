"""Operators choose classes of service, on role `system`. Commits nothing: the caller does."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.slo.models import SloChoice
from loraplex.platform.tenancy.errors import KeyNotFound
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import ApiKey, Tenant


async def choose(
    session: AsyncSession,
    actor: Actor,
    tenant: Tenant,
    slo_class: str | None,
    *,
    key_id: UUID | None = None,
) -> None:
    """Give a tenant, or one of its keys, a class; None takes the choice back.

    In force on every gateway within five seconds. The caller knows that there is such a class.
    Raises KeyNotFound.
    """
    if key_id is not None:
        mine = ApiKey.tenant_id == tenant.id, ApiKey.id == key_id
        if await session.scalar(select(ApiKey.id).where(*mine)) is None:
            raise KeyNotFound(key_id)
    chosen = (
        SloChoice.tenant_id == tenant.id,
        SloChoice.api_key_id.is_not_distinct_from(key_id),
    )
    before = await session.scalar(select(SloChoice.slo_class).where(*chosen).with_for_update())
    if slo_class is None:
        await session.execute(delete(SloChoice).where(*chosen))
    else:
        await session.execute(
            insert(SloChoice)
            .values(tenant_id=tenant.id, api_key_id=key_id, slo_class=slo_class)
            .on_conflict_do_update(
                index_elements=[SloChoice.tenant_id, SloChoice.api_key_id],
                set_={"slo_class": slo_class},
            )
        )
    kind, subject = ("tenant", tenant.id) if key_id is None else ("api_key", key_id)
    await record(
        session,
        actor,
        "slo_class.chosen",
        tenant_id=TenantId(tenant.id),
        target=Target(kind, subject, tenant.name),
        before={"slo_class": before},
        after={"slo_class": slo_class},
    )


async def choices_of(session: AsyncSession, tenant: Tenant) -> Sequence[SloChoice]:
    """What was chosen for a tenant, and after it for its keys."""
    mine = SloChoice.tenant_id == tenant.id
    order = SloChoice.api_key_id.is_not(None), SloChoice.created_at, SloChoice.id
    return (await session.scalars(select(SloChoice).where(mine).order_by(*order))).all()
