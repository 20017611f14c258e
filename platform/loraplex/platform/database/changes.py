"""Tells a process's caches which rows have changed, over one LISTEN connection.

A notification is a hint. One that is sent while nobody listens is lost, so everything is forgotten
whenever listening begins or ends, and every cache bounds the age of what it holds besides.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from uuid import UUID

import psycopg
from structlog import get_logger

from loraplex.platform.database.notifications import RETRY_SECONDS
from loraplex.platform.database.sessions import CONNECT_SECONDS, Database
from loraplex.platform.database.urls import libpq_url

CHANNEL = "loraplex_changes"
"""Where the trigger function notify_change() sends `<table>:<id>`."""
MAX_CACHE_SECONDS = 5.0
"""How old anything kept on the strength of `Changes` may get: what holds if nothing is heard."""
APPLICATION_NAME = "loraplex-changes"
ChangeCallback = Callable[[UUID | None], None]
"""Told the id of the row that changed; None stands for every row of the table."""

log = get_logger(__name__)


class Changes:
    """What one process hears. Watchers are called on the event loop and must not block it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._watchers: defaultdict[str, list[ChangeCallback]] = defaultdict(list)

    def watch(self, table: str, callback: ChangeCallback) -> None:
        """Call `callback` for each row of `table` that changes, from when `listen` runs."""
        self._watchers[table].append(callback)

    async def listen(self) -> None:
        """Listen for ever, until cancelled; a Postgres that is away is called again."""
        while True:
            try:
                await self._listen_once()
            except psycopg.OperationalError as error:
                log.warning("not_listening", channel=CHANNEL, error=type(error).__name__)
            finally:
                self._forget_everything()
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen_once(self) -> None:
        url = libpq_url(self._database.engine.url.render_as_string(hide_password=False))
        async with await psycopg.AsyncConnection.connect(
            url,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            application_name=APPLICATION_NAME,
            # A peer that vanishes without a word is missed after nine seconds.
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=2,
        ) as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            self._forget_everything()  # what changed while nobody listened
            async for notification in connection.notifies():
                self._tell(notification.payload)

    def _tell(self, payload: str) -> None:
        table, _, row = payload.partition(":")
        row_id = UUID(row) if row else None
        for callback in self._watchers.get(table, ()):
            callback(row_id)

    def _forget_everything(self) -> None:
        for callbacks in self._watchers.values():
            for callback in callbacks:
                callback(None)
