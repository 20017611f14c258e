"""What was sent to an endpoint, try by try, and how to have it sent once more. Commits nothing."""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Select, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.endpoints import find_endpoint
from loraplex.platform.webhooks.errors import DeliveryNotFound, DeliveryUnderWay, WebhookDisabled
from loraplex.platform.webhooks.models import (
    DeliveryStatus,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEvent,
)
from loraplex.platform.webhooks.views import AttemptView, DeliveryView

NEWEST_FIRST = Keyset("deliveries", WebhookDelivery.created_at, WebhookDelivery.id, descending=True)


async def page_of_deliveries(
    session: AsyncSession, tenant_id: TenantId, endpoint_id: UUID, wanted: PageRequest
) -> Page[DeliveryView]:
    """An endpoint's deliveries, newest first; raises WebhookNotFound and InvalidCursor."""
    await find_endpoint(session, tenant_id, endpoint_id)
    page = await NEWEST_FIRST.page(session, _deliveries(tenant_id, endpoint_id), wanted)
    tries = await _attempts(session, tenant_id, [row.id for row, _ in page.items])
    return page.map(lambda row: DeliveryView.of(*row, tuple(tries[row[0].id])))


async def find_delivery(
    session: AsyncSession, tenant_id: TenantId, endpoint_id: UUID, delivery_id: UUID
) -> DeliveryView:
    """One delivery; raises DeliveryNotFound."""
    statement = _deliveries(tenant_id, endpoint_id).where(WebhookDelivery.id == delivery_id)
    row = (await session.execute(statement)).first()
    if row is None:
        raise DeliveryNotFound(delivery_id)
    tries = await _attempts(session, tenant_id, [delivery_id])
    return DeliveryView.of(*row, tuple(tries[delivery_id]))


async def retry(
    session: AsyncSession, tenant_id: TenantId, endpoint_id: UUID, delivery_id: UUID
) -> DeliveryView:
    """Try a delivery that has ended once more, soon; what was tried before stays on record.

    The message keeps its id. Raises WebhookNotFound, DeliveryNotFound, WebhookDisabled and
    DeliveryUnderWay.
    """
    endpoint = await find_endpoint(session, tenant_id, endpoint_id, is_locked=True)
    found = await find_delivery(session, tenant_id, endpoint_id, delivery_id)
    if not endpoint.is_enabled:
        raise WebhookDisabled
    if found.status is DeliveryStatus.PENDING:
        raise DeliveryUnderWay
    await session.execute(
        update(WebhookDelivery)
        .where(WebhookDelivery.tenant_id == tenant_id, WebhookDelivery.id == delivery_id)
        .values(status=DeliveryStatus.PENDING, next_attempt_at=func.now(), finished_at=None),
        execution_options={"synchronize_session": "fetch"},
    )
    return await find_delivery(session, tenant_id, endpoint_id, delivery_id)


def _deliveries(tenant_id: TenantId, endpoint_id: UUID) -> "Select[WebhookDelivery, WebhookEvent]":
    return (
        select(WebhookDelivery, WebhookEvent)
        .join(
            WebhookEvent,
            (WebhookEvent.tenant_id == WebhookDelivery.tenant_id)
            & (WebhookEvent.id == WebhookDelivery.event_id),
        )
        .where(WebhookDelivery.tenant_id == tenant_id, WebhookDelivery.endpoint_id == endpoint_id)
        .execution_options(populate_existing=True)
    )


async def _attempts(
    session: AsyncSession, tenant_id: TenantId, delivery_ids: Sequence[UUID]
) -> dict[UUID, list[AttemptView]]:
    statement = (
        select(WebhookAttempt)
        .where(WebhookAttempt.tenant_id == tenant_id, WebhookAttempt.delivery_id.in_(delivery_ids))
        .order_by(WebhookAttempt.number)
    )
    tries: dict[UUID, list[AttemptView]] = defaultdict(list)
    for row in await session.scalars(statement):
        tries[row.delivery_id].append(AttemptView.of(row))
    return tries
