"""Tells without a round trip whether a pooled connection still has a server at its other end.

A server that stops, is killed or drops a connection closes its socket, and then there is something
to read where nobody has asked anything. A peer that vanishes without a word is found by the
kernel's keep-alives, which close the socket too. So one look at the socket takes the place of the
`SELECT 1` that pool_pre_ping would send before each unit of work.
"""

import select
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

KEEPALIVES = {
    "keepalives_idle": 30,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""libpq's: seconds, seconds, times, and milliseconds that what was sent may go unacknowledged."""

WAS_BORROWED = "loraplex_was_borrowed"


def replace_dead_connections(engine: Engine) -> None:
    """Have the engine's pool open another connection where the one it would lend is dead."""

    @event.listens_for(engine, "checkout")
    def look(connection: Any, entry: ConnectionPoolEntry, _: object) -> None:
        # A connection that has just been made needs no look, and a refusal would end the attempts.
        if entry.info.setdefault(WAS_BORROWED, False) and not is_quiet(
            connection.driver_connection.pgconn.socket
        ):
            raise DisconnectionError("the server has closed the connection")
        entry.info[WAS_BORROWED] = True


def is_quiet(socket: int) -> bool:
    """Whether nothing is to be read from the socket, not even its end."""
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return not poll.poll(0)
