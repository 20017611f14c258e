"""Which texts are public now, as one gateway knows it: told of changes."""

import asyncio
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from structlog import get_logger

from loraplex.api.text.public_prefixes import PublicPrefixes
from loraplex.platform.database.changes import MAX_CACHE_SECONDS, Changes
from loraplex.platform.database.notifications import woken
from loraplex.platform.database.sessions import Database
from loraplex.platform.public_prefixes.service import declared_texts, declared_when

log = get_logger(__name__)


class DeclaredPrefixes:
    """Keeps a gateway's public prefixes as the table has them. Without a database they stay."""

    def __init__(self, database: Database, prefixes: PublicPrefixes) -> None:
        self._database = database
        self._prefixes = prefixes
        self._known: Mapping[str, datetime] = {}
        self._wanted = asyncio.Event()
        self._reading = asyncio.Lock()

    def watch(self, changes: Changes) -> None:
        """Read again at once when a declaration has changed, or may have."""
        changes.watch("public_prefixes", lambda _: self._wanted.set())

    async def keep_current(self) -> None:
        """Read again and again, until cancelled."""
        while True:
            self._wanted.clear()
            await self.read()
            await woken(self._wanted, MAX_CACHE_SECONDS)

    async def read(self) -> None:
        """Take over what is declared; a database that does not answer changes nothing."""
        async with self._reading:  # an answer from before must not overtake one from after
            try:
                await self._read()
            except (DBAPIError, PoolTimeout, OSError) as error:
                log.warning("public_prefixes_not_read", error=type(error).__name__)

    async def _read(self) -> None:
        async with self._database.unit_of_work() as session:
            known = await declared_when(session)
            if known == self._known and not self._prefixes.is_outdated:
                return
            texts = await declared_texts(session)
        await asyncio.to_thread(self._prefixes.declare, texts)
        self._known = known
