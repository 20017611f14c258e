"""Forgets what was delivered, or given up, long ago; drops secrets whose overlap has ended."""

from datetime import timedelta
from typing import Any

from sqlalchemy import delete, exists, func, literal, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.jobs import JobContext, job
from loraplex.platform.webhooks.models import (
    DeliveryStatus,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)

SWEEP_WEBHOOKS = "loraplex.sweep_webhooks"
SWEEP_SECONDS = 600.0
KEPT = timedelta(days=30)
BATCH_ROWS = 1000
"""Rows a transaction deletes: few enough that nobody waits for its locks."""

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "sweep-webhooks": {
        "task": SWEEP_WEBHOOKS,
        "schedule": SWEEP_SECONDS,
        "options": {"expires": SWEEP_SECONDS},
    },
}


@job(SWEEP_WEBHOOKS)
async def sweep_webhooks(context: JobContext) -> None:
    """Sweep until nothing old is left, a batch a transaction."""
    for sweep in (forget_deliveries, forget_events):
        while True:
            async with context.database.unit_of_work() as session:
                if await sweep(session) < BATCH_ROWS:
                    break
    async with context.database.unit_of_work() as session:
        await drop_expired_secrets(session)


async def forget_deliveries(session: AsyncSession) -> int:
    """Delete a batch of old deliveries that have ended, with their attempts; how many."""
    old = (
        select(WebhookDelivery.id)
        .where(
            WebhookDelivery.status != DeliveryStatus.PENDING,
            WebhookDelivery.created_at < func.now() - literal(KEPT),
        )
        .limit(BATCH_ROWS)
        .with_for_update(skip_locked=True)
    )
    ids = (await session.scalars(old)).all()
    await session.execute(delete(WebhookDelivery).where(WebhookDelivery.id.in_(ids)))
    return len(ids)


async def forget_events(session: AsyncSession) -> int:
    """Delete a batch of old events that no delivery speaks of any more; how many."""
    told = exists().where(
        WebhookDelivery.tenant_id == WebhookEvent.tenant_id,
        WebhookDelivery.event_id == WebhookEvent.id,
    )
    old = (
        select(WebhookEvent.id)
        .where(WebhookEvent.created_at < func.now() - literal(KEPT), ~told)
        .limit(BATCH_ROWS)
        .with_for_update(skip_locked=True)
    )
    ids = (await session.scalars(old)).all()
    await session.execute(delete(WebhookEvent).where(WebhookEvent.id.in_(ids)))
    return len(ids)


async def drop_expired_secrets(session: AsyncSession) -> None:
    """A secret that no longer signs need not be kept."""
    await session.execute(
        update(WebhookEndpoint)
        .where(WebhookEndpoint.previous_secret_expires_at < func.now())
        .values(previous_sealed_secret=None, previous_secret_expires_at=None)
    )
