"""The time by the database, whose clock is the one that all processes share."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession


async def transaction_time(session: AsyncSession) -> datetime:
    """When the session's transaction began; the same as often as it is asked."""
    return (await session.execute(select(func.now()))).scalar_one()
