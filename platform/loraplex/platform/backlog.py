"""What waits in Postgres to be done, told as metrics by whoever holds the controller's place."""

import asyncio
from datetime import UTC, datetime

from prometheus_client import Gauge
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from structlog import get_logger

from loraplex.platform.admission.models import Reservation
from loraplex.platform.database.outbox import OutboxMessage
from loraplex.platform.database.sessions import Database
from loraplex.platform.metrics import REGISTRY
from loraplex.platform.webhooks.models import DeliveryStatus, WebhookDelivery

LOOK_SECONDS = 5.0

log = get_logger(__name__)


def _gauge(name: str, help_text: str) -> Gauge:
    # The newest value counts: a controller that was killed leaves its own behind.
    return Gauge(name, help_text, registry=REGISTRY, multiprocess_mode="mostrecent")


OUTBOX_MESSAGES = _gauge("loraplex_outbox_messages", "Messages that wait to be published.")
OUTBOX_OLDEST = _gauge(
    "loraplex_outbox_oldest_seconds", "How long the oldest of them has waited; 0 without any."
)
WEBHOOKS_DUE = _gauge("loraplex_webhook_deliveries_due", "Deliveries whose time has come.")
RESERVATIONS_LAPSED = _gauge(
    "loraplex_reservations_lapsed", "Calls of dead gateways that nobody has settled yet."
)
LOOKED_AT = _gauge(
    "loraplex_backlog_looked_at_seconds", "When the controller last looked, in Unix time."
)


async def watch_backlog(system: Database) -> None:
    """Look every LOOK_SECONDS, for ever; without Postgres the last values stay and grow old."""
    while True:
        try:
            await look(system)
        except (DBAPIError, PoolTimeout, OSError) as error:
            log.warning("backlog_unknown", error=type(error).__name__)
        await asyncio.sleep(LOOK_SECONDS)


async def look(system: Database) -> None:
    """Count once, by partial indexes of what is not done yet."""
    waiting = OutboxMessage.published_at.is_(None)
    due = (
        WebhookDelivery.status == DeliveryStatus.PENDING,
        WebhookDelivery.next_attempt_at < func.now(),
    )
    async with system.unit_of_work() as session:
        messages, oldest = (
            await session.execute(
                select(func.count(), func.min(OutboxMessage.created_at)).where(waiting)
            )
        ).one()
        deliveries = await session.scalar(
            select(func.count()).select_from(WebhookDelivery).where(*due)
        )
        lapsed = await session.scalar(
            select(func.count())
            .select_from(Reservation)
            .where(Reservation.expires_at < func.clock_timestamp())
        )
    now = datetime.now(UTC)
    OUTBOX_MESSAGES.set(messages)
    OUTBOX_OLDEST.set(0 if oldest is None else max(0.0, (now - oldest).total_seconds()))
    WEBHOOKS_DUE.set(deliveries or 0)
    RESERVATIONS_LAPSED.set(lapsed or 0)
    LOOKED_AT.set(now.timestamp())
