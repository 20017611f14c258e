"""Takes back what has outlived its time in the platform's own tables."""

from datetime import timedelta

from sqlalchemy import ColumnElement, delete, func, literal
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.admission.recovery import settle_abandoned
from loraplex.platform.admission.service import sweep_reservations
from loraplex.platform.database.base import Base
from loraplex.platform.database.outbox import OutboxMessage
from loraplex.platform.idempotency.models import IdempotencyKey
from loraplex.platform.jobs import JobContext, job
from loraplex.platform.tenancy.models import AuthFailure, OperatorSession, WebSession

PUBLISHED_KEPT = timedelta(days=1)
"""How long a published message stays, for whoever asks what was sent."""
FAILURES_KEPT = timedelta(hours=1)

BEAT_SCHEDULE = {
    "sweep-reservations": {
        "task": "loraplex.sweep_reservations",
        "schedule": 30.0,
        "options": {"expires": 30},
    },
    "sweep-expired": {
        "task": "loraplex.sweep_expired",
        "schedule": 600.0,
        "options": {"expires": 600},
    },
}


@job("loraplex.sweep_reservations")
async def sweep_lapsed_reservations(context: JobContext) -> None:
    """End what dead gateways left, and no living one could: as lost, or as nobody's."""
    async with context.database.unit_of_work() as session:
        await sweep_reservations(session)
    await settle_abandoned(context.database)


@job("loraplex.sweep_expired")
async def sweep_expired(context: JobContext) -> None:
    """Delete ended sessions, old failures, answers to keys, messages published long ago."""
    async with context.database.unit_of_work() as session:
        await delete_where(session, WebSession, WebSession.expires_at < func.now())
        await delete_where(session, OperatorSession, OperatorSession.expires_at < func.now())
        old_window = AuthFailure.window_start < func.now() - literal(FAILURES_KEPT)
        await delete_where(session, AuthFailure, old_window)
        await delete_where(session, IdempotencyKey, IdempotencyKey.expires_at < func.now())
        # NULL, which an unpublished message has, is never less.
        long_published = OutboxMessage.published_at < func.now() - literal(PUBLISHED_KEPT)
        await delete_where(session, OutboxMessage, long_published)


async def delete_where(
    session: AsyncSession, model: type[Base], condition: ColumnElement[bool]
) -> None:
    await session.execute(
        delete(model).where(condition), execution_options={"synchronize_session": False}
    )
