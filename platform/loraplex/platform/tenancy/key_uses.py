"""Writes when keys were last used: now and then, for many at once, never on a request's way."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from structlog import get_logger

from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy import repository

PRECISION = timedelta(minutes=1)
"""A key's `last_used_at` is written again after so long, however many gateways saw it used."""
RECORD_SECONDS = 15.0

log = get_logger(__name__)


class KeyUses:
    """The keys one gateway saw used since it last wrote."""

    def __init__(
        self, database: Database, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._used: set[UUID] = set()
        self._recorded_at: dict[UUID, float] = {}

    def saw(self, key_id: UUID) -> None:
        """This key was used just now."""
        self._used.add(key_id)

    async def record(self) -> None:
        """Write what is due; raises what Postgres raises, and then forgets nothing."""
        now = self._monotonic()
        oldest = now - PRECISION.total_seconds()
        self._recorded_at = {key: at for key, at in self._recorded_at.items() if at > oldest}
        due = sorted(self._used - self._recorded_at.keys())
        if due:
            async with self._database.unit_of_work() as session:
                await repository.record_key_uses(session, due, PRECISION)
        self._recorded_at |= dict.fromkeys(due, now)
        self._used.difference_update(due)

    async def keep_recording(self) -> None:
        """Record for ever; when cancelled, once more."""
        try:
            while True:
                await asyncio.sleep(RECORD_SECONDS)
                await self._try()
        finally:
            await self._try()

    async def _try(self) -> None:
        try:
            await self.record()
        except (DBAPIError, PoolTimeout) as error:
            log.warning("key_uses_not_recorded", error=type(error).__name__)
