"""Settles calls beside their answers: tried again while Postgres is away, awaited at shutdown."""

import asyncio
from collections.abc import Coroutine

import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from loraplex.api.metrics import Metrics
from loraplex.platform.admission.service import Admission
from loraplex.platform.metering.service import Usage
from loraplex.platform.tenancy.principals import TenantPrincipal

log = structlog.get_logger(__name__)

FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 5.0
GIVE_UP_SECONDS = 300.0
"""Longer than Postgres takes to come back. What is given up then is left unacknowledged and not
renewed: whoever finds its lapsed reservation settles it by the counts that the workers keep."""


class Settlements:
    """One gateway's settlements under way."""

    def __init__(self, admission: Admission, metrics: Metrics) -> None:
        self._admission = admission
        self._metrics = metrics
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, settling: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run `settling` whatever becomes of the request that asked for it."""
        task = asyncio.create_task(settling)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def record(self, principal: TenantPrincipal, usage: Usage) -> bool:
        """Settle; a database that is away is tried again. Settling twice changes nothing.

        Whether it is settled now.
        """
        delay_seconds, waited_seconds = FIRST_DELAY_SECONDS, 0.0
        while True:
            try:
                await self._admission.settle(principal, usage)
                return True
            except (DBAPIError, PoolTimeout, OSError) as error:
                if waited_seconds >= GIVE_UP_SECONDS:
                    self._leave(usage, error)
                    return False
            except Exception as error:  # of ours: trying again would not help
                self._leave(usage, error)
                return False
            await asyncio.sleep(delay_seconds)
            waited_seconds += delay_seconds
            delay_seconds = min(2 * delay_seconds, LONGEST_DELAY_SECONDS)

    def _leave(self, usage: Usage, error: Exception) -> None:
        log.error("settlement_left", request_id=usage.request_id, exc_info=error)
        self._metrics.settlements_left.inc()
        self._admission.give_up(usage.request_id)

    async def flush(self, seconds: float) -> None:
        """Wait for what is under way, so long at most; the rest is left to recovery."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            if late:
                log.error("settlements_unfinished", count=len(late))
                self._metrics.settlements_left.inc(len(late))
