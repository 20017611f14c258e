"""Writes an event, and who is to be told of it, in the transaction of the fact itself."""

from collections.abc import Mapping
from uuid import UUID, uuid4

from sqlalchemy import any_, func, insert, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.models import (
    DeliveryStatus,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)


async def emit(
    session: AsyncSession, tenant_id: TenantId, event_type: str, data: Mapping[str, object]
) -> None:
    """Tell the tenant's endpoints, once this transaction has committed; never without it.

    Which endpoints are told is decided here: one that is added later, or asks for this type
    later, does not get it. `event_type` is one of EventType, else ValueError. `data` is JSON: ids,
    names, version numbers, codes of reasons; never a secret. Works on roles `app` and `system`.
    """
    event_id = await _write_event(session, tenant_id, EventType(event_type), data)
    asks = or_(
        func.cardinality(WebhookEndpoint.event_types) == 0,
        literal(event_type) == any_(WebhookEndpoint.event_types),
    )
    told = select(
        func.gen_random_uuid(),
        WebhookEndpoint.tenant_id,
        WebhookEndpoint.id,
        literal(event_id),
        literal(DeliveryStatus.PENDING.value),
        literal(0),
        func.now(),
    ).where(WebhookEndpoint.tenant_id == tenant_id, WebhookEndpoint.is_enabled, asks)
    columns = ["id", "tenant_id", "endpoint_id", "event_id", "status", "attempts"]
    await session.execute(
        insert(WebhookDelivery).from_select([*columns, "next_attempt_at"], told).inline()
    )


async def emit_to(
    session: AsyncSession,
    endpoint: WebhookEndpoint,
    event_type: EventType,
    data: Mapping[str, object],
) -> WebhookDelivery:
    """Tell this endpoint alone, whatever it asks for."""
    tenant_id = TenantId(endpoint.tenant_id)
    event_id = await _write_event(session, tenant_id, event_type, data)
    statement = (
        insert(WebhookDelivery)
        .values(
            tenant_id=tenant_id,
            endpoint_id=endpoint.id,
            event_id=event_id,
            next_attempt_at=func.now(),
        )
        .returning(WebhookDelivery)
    )
    return (await session.scalars(statement)).one()


async def _write_event(
    session: AsyncSession, tenant_id: TenantId, event_type: EventType, data: Mapping[str, object]
) -> UUID:
    event_id = uuid4()
    values = {"id": event_id, "tenant_id": tenant_id, "type": event_type.value, "data": dict(data)}
    await session.execute(insert(WebhookEvent).inline().values(**values))
    return event_id
