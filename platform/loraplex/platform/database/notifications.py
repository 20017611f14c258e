"""Hears what Postgres notifies of, on a connection that does nothing else."""

import asyncio
from contextlib import suppress

import psycopg
from structlog import get_logger

from loraplex.platform.database.sessions import CONNECT_SECONDS, Database
from loraplex.platform.database.urls import libpq_url

RETRY_SECONDS = 0.5

log = get_logger(__name__)


async def listen(database: Database, channel: str, wake: asyncio.Event) -> None:
    """Set `wake` at each notification, for ever; a Postgres that is away is called again.

    A notification can be missed, so whoever waits for `wake` also looks now and then.
    """
    url = libpq_url(database.engine.url.render_as_string(hide_password=False))
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(
                url, autocommit=True, connect_timeout=CONNECT_SECONDS
            ) as connection:
                await connection.execute(f"LISTEN {channel}")
                wake.set()  # what was written while nobody listened
                async for _ in connection.notifies():
                    wake.set()
        except psycopg.OperationalError as error:
            log.warning("not_listening", channel=channel, error=type(error).__name__)
        await asyncio.sleep(RETRY_SECONDS)


async def woken(wake: asyncio.Event, seconds: float) -> None:
    """Wait until `wake` is set, but no longer than that."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wake.wait()
