"""Calls functions in Postgres, each a transaction of its own, in one round trip.

Few connections, the last one used first: they keep their prepared statements and the plans of
functions, and a connection that is new needs ten times as long. More of them would only wait for
each other's locks. What a request waits for lies here, so nothing stands between it and the driver.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, LiteralString

import psycopg
from sqlalchemy.exc import InterfaceError, OperationalError

from loraplex.platform.database.liveness import KEEPALIVES, is_quiet
from loraplex.platform.database.urls import libpq_url

CONNECTIONS = 4
CONNECT_SECONDS = 10


class Statements:
    """One role's connections for calls. Belongs to the event loop that first uses it."""

    def __init__(self, url: str) -> None:
        """Nothing connects before the first call."""
        self._url = libpq_url(url)
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self._idle: list[psycopg.AsyncConnection] = []

    async def call(self, statement: LiteralString, values: Mapping[str, object]) -> Any:
        """The value of a statement that gives one; `%(name)s` stands for a value.

        Raises sqlalchemy's OperationalError or InterfaceError when Postgres is away, as units of
        work do: whether the call has had its effect is not known then.
        """
        async with self._turns:
            try:
                connection = await self._borrow()
                try:
                    cursor = await connection.execute(statement, values, prepare=True)
                    row = await cursor.fetchone()
                except BaseException:
                    await connection.close()  # in whatever state it was left
                    raise
            except psycopg.OperationalError as error:
                raise OperationalError(statement, None, error, hide_parameters=True) from error
            except psycopg.InterfaceError as error:
                raise InterfaceError(statement, None, error, hide_parameters=True) from error
            self._idle.append(connection)
        assert row is not None, "a call gives one row"
        return row[0]

    async def close(self) -> None:
        """Close what is idle; whoever calls at the same time keeps its connection."""
        while self._idle:
            await self._idle.pop().close()

    async def _borrow(self) -> psycopg.AsyncConnection:
        while self._idle:
            connection = self._idle.pop()
            if is_quiet(connection.pgconn.socket):
                return connection
            await connection.close()
        options: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **KEEPALIVES}
        return await psycopg.AsyncConnection.connect(self._url, autocommit=True, **options)
