"""Keeps a claim alive while its work runs, and ends the work once somebody else has the claim.

A row that is being worked on has a deadline a little ahead, which its worker moves on. So a dead
worker is noticed within seconds however long the work may take, and a worker that was taken for
dead stops before it does harm.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

Result = TypeVar("Result")

LEASE_SECONDS = 30.0
"""How far ahead a renewed deadline lies: longer than a busy machine keeps a renewal waiting."""
RENEW_SECONDS = 5.0

log = structlog.get_logger(__name__)


class LeaseLost(RuntimeError):
    """Somebody else has the claim now; what was done under it does not count."""


async def under_lease(
    work: Coroutine[Any, Any, Result],
    renew: Callable[[], Awaitable[bool]],
    every_seconds: float = RENEW_SECONDS,
) -> Result:
    """Do the work, calling `renew` again and again meanwhile.

    `renew` moves the deadline on and answers whether the claim still stands; where it does not,
    the work is cancelled and LeaseLost raised. A database that does not answer is asked again.
    """
    working = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait({working}, timeout=every_seconds)
            if done:
                return working.result()
            try:
                stands = await renew()
            except (DBAPIError, PoolTimeout, OSError) as error:
                log.warning("lease_not_renewed", error=type(error).__name__)
                continue
            if not stands:
                raise LeaseLost("the claim was given to somebody else")
    finally:
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
