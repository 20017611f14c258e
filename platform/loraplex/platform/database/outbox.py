"""Messages written in the same transaction as the fact they tell of; a relay publishes them."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import BigInteger, Identity, Index, Text, insert, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.engine.protocol.tracing import current_traceparent
from loraplex.platform.database.base import Base, Created


class OutboxMessage(Base, Created):
    """A task to be sent: the Celery task's name and its JSON arguments.

    `attempts` counts how often the broker did not take it, `last_error` says why.
    """

    __tablename__ = "outbox"
    __table_args__ = (
        Index("outbox_unpublished_idx", "id", postgresql_where=text("published_at IS NULL")),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    task: Mapped[str]
    arguments: Mapped[dict[str, object]]
    published_at: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    last_error: Mapped[str | None] = mapped_column(Text)
    traceparent: Mapped[str | None]
    """The span in which it was asked for, where anybody traces."""


async def enqueue(session: AsyncSession, task: str, arguments: Mapping[str, object]) -> None:
    """Ask for a Celery task, by its name, once this transaction has committed.

    `arguments` are the task's keyword arguments, as JSON. The task may run more than once.
    """
    # inline(): role `app` may insert but not read the outbox, so no id comes back.
    statement = (
        insert(OutboxMessage)
        .inline()
        .values(task=task, arguments=dict(arguments), traceparent=current_traceparent())
    )
    await session.execute(statement)
