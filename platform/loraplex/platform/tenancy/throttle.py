"""Counts bad credentials by client address, in Postgres, so that all gateways share the count.

A key that proves itself is never refused because of its neighbours: many honest clients share one
address behind a proxy, and 190 random bits are not guessed. The throttle bounds what guessing may
cost us, so only a bad key is answered with "too many"; a gateway then remembers that address until
the window ends and neither reads nor writes for it.
"""

import ipaddress
import math
import time
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import func, literal
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from structlog import get_logger

from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.errors import TooManyFailures
from loraplex.platform.tenancy.models import AuthFailure

FAILURE_LIMIT = 20
WINDOW = timedelta(minutes=1)
REMEMBERED_ADDRESSES = 10_000

log = get_logger(__name__)


class FailureThrottle:
    """One gateway's view of the shared counts."""

    def __init__(
        self,
        database: Database,
        *,
        limit: int = FAILURE_LIMIT,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._limit = limit
        self._monotonic = monotonic
        self._blocked_until: dict[str, float] = {}

    async def count(self, address: str) -> None:
        """Count one more failure; raises TooManyFailures from the one past the limit on.

        When Postgres cannot be reached the failure goes uncounted: the refusal that the caller
        is about to give stands all the same.
        """
        network = network_of(address)
        self.refuse_known(network)
        try:
            failures, seconds_left = await self._increment(network)
        except (DBAPIError, PoolTimeout) as error:
            log.warning("auth_failure_not_counted", error=type(error).__name__)
            return
        if failures > self._limit:
            self._remember(network, seconds_left)
            raise TooManyFailures(self._limit, max(1, math.ceil(seconds_left)))

    def refuse_known(self, network: str) -> None:
        """Raise TooManyFailures when this process knows that the network has had too many.

        For what costs much to check, as passwords do; a key is checked first.
        """
        until = self._blocked_until.get(network)
        if until is None:
            return
        seconds_left = until - self._monotonic()
        if seconds_left > 0:
            raise TooManyFailures(self._limit, math.ceil(seconds_left))
        del self._blocked_until[network]

    def _remember(self, network: str, seconds_left: float) -> None:
        if len(self._blocked_until) >= REMEMBERED_ADDRESSES:
            # Forgetting costs one write for the next failure from there; the shared count stays.
            del self._blocked_until[next(iter(self._blocked_until))]
        self._blocked_until[network] = self._monotonic() + seconds_left

    async def _increment(self, network: str) -> tuple[int, float]:
        """The window's failures, this one included, and how many seconds it has left."""
        window_start = func.date_bin(literal(WINDOW), func.now(), func.to_timestamp(literal(0)))
        statement = (
            insert(AuthFailure)
            .values(address=network, window_start=window_start, failures=1)
            .on_conflict_do_update(
                index_elements=[AuthFailure.address, AuthFailure.window_start],
                set_={"failures": AuthFailure.failures + 1},
            )
            .returning(
                AuthFailure.failures,
                func.extract("epoch", AuthFailure.window_start + literal(WINDOW) - func.now()),
            )
        )
        async with self._database.unit_of_work() as session:
            failures, seconds_left = (await session.execute(statement)).one()
        return failures, float(seconds_left)


def network_of(address: str) -> str:
    """What failures are counted by: an IPv4 address, or an IPv6 /64, which one client owns."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)
