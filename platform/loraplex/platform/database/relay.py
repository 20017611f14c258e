"""Sends what the outbox holds to Celery: at least once, in order but for retries.

A message is marked after it was published, in the transaction that locked it. A crash in between
publishes it again; a broker that loses it is made good by the sweeper of whoever asked.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisError
from sqlalchemy import func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncSession
from structlog import get_logger

from loraplex.engine.protocol.tracing import TRACEPARENT
from loraplex.platform.database.notifications import listen, woken
from loraplex.platform.database.outbox import OutboxMessage
from loraplex.platform.database.sessions import Database
from loraplex.platform.metrics import OUTBOX_PUBLISHED

CHANNEL = "loraplex_outbox"
BATCH_MESSAGES = 100
POLL_SECONDS = 2.0
"""How long a message may wait when its notification was missed."""
RETRY_SECONDS = 0.5

BROKER_ERRORS = (KombuError, RedisError, OSError)

log = get_logger(__name__)


async def run_relay(system: Database, jobs: Celery) -> None:
    """Publish for ever, until cancelled; both Postgres and the broker may come and go meanwhile.

    Any number of relays may run: each takes the messages that no other holds.
    """
    wake = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(listen(system, CHANNEL, wake))
        group.create_task(_publish_whenever(system, jobs, wake))


async def publish_batch(system: Database, jobs: Celery) -> int:
    """Publish and mark the oldest unpublished messages; how many there were.

    Raises what the database or the broker raise. What the broker took before it refused one is
    marked, and the one it refused has its attempt on record; what the database did not take may be
    published again.
    """
    async with system.unit_of_work() as session:
        batch = (
            await session.scalars(
                select(OutboxMessage)
                .where(OutboxMessage.published_at.is_(None))
                .order_by(OutboxMessage.id)
                .limit(BATCH_MESSAGES)
                .with_for_update(skip_locked=True)
            )
        ).all()
        if not batch:
            return 0
        sent, error = await asyncio.to_thread(_send, jobs, batch)
        await _mark(session, batch[:sent], published_at=func.now(), last_error=None)
        if error is not None:
            refused = batch[sent : sent + 1]
            name = type(error).__name__  # its words may hold the broker's address and password
            await _mark(session, refused, attempts=OutboxMessage.attempts + 1, last_error=name)
    OUTBOX_PUBLISHED.inc(sent)
    if error is not None:
        raise error
    return len(batch)


def _send(jobs: Celery, batch: Sequence[OutboxMessage]) -> tuple[int, Exception | None]:
    """How many the broker took, and why it did not take the next."""
    for sent, message in enumerate(batch):
        try:
            jobs.send_task(
                message.task,
                kwargs=message.arguments,
                task_id=f"outbox-{message.id}",
                headers={TRACEPARENT: message.traceparent} if message.traceparent else None,
            )
        except BROKER_ERRORS as error:
            return sent, error
    return len(batch), None


async def _mark(session: AsyncSession, messages: Sequence[OutboxMessage], **values: Any) -> None:
    ids = [message.id for message in messages]
    await session.execute(
        update(OutboxMessage).where(OutboxMessage.id.in_(ids)).values(**values),
        execution_options={"synchronize_session": False},
    )


async def _publish_whenever(system: Database, jobs: Celery, wake: asyncio.Event) -> None:
    while True:
        wake.clear()
        try:
            published = await publish_batch(system, jobs)
        except (DBAPIError, PoolTimeout, *BROKER_ERRORS) as error:
            log.warning("outbox_not_published", error=type(error).__name__)
            await asyncio.sleep(RETRY_SECONDS)
            continue
        if published < BATCH_MESSAGES:
            await woken(wake, POLL_SECONDS)
