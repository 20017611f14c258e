"""Counts wrong passwords by account, in Postgres, so that all gateways share the count.

Unlike a key, a password can be guessed, so a blocked account is refused before its password is
looked at. Most failures are counted against the account as seen from one network: somebody else's
guesses do not keep its owner out before they are a hundred.
"""

import hashlib
import math
from datetime import timedelta

from sqlalchemy import func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.people.errors import TooManyLogins
from loraplex.platform.tenancy.models import AuthFailure
from loraplex.platform.tenancy.throttle import network_of

WINDOW = timedelta(minutes=15)
LIMIT_FROM_ONE_NETWORK = 5
LIMIT_IN_ALL = 100


async def refuse_blocked(session: AsyncSession, email: str, address: str) -> None:
    """Raise TooManyLogins while the account has had too many wrong passwords."""
    blocked = select(
        AuthFailure.address,
        AuthFailure.failures,
        func.extract("epoch", AuthFailure.window_start + literal(WINDOW) - func.now()),
    ).where(
        AuthFailure.address.in_(_limits(email, address)),
        AuthFailure.window_start == _window_start(),
    )
    limits = _limits(email, address)
    for counted, failures, seconds_left in await session.execute(blocked):
        if failures >= limits[counted]:
            raise TooManyLogins(limits[counted], max(1, math.ceil(seconds_left)))


async def count_failure(session: AsyncSession, email: str, address: str) -> None:
    """Count one more wrong password."""
    # In one order, or two failures at once could wait for each other.
    for counted in sorted(_limits(email, address)):
        await session.execute(
            insert(AuthFailure)
            .values(address=counted, window_start=_window_start(), failures=1)
            .on_conflict_do_update(
                index_elements=[AuthFailure.address, AuthFailure.window_start],
                set_={"failures": AuthFailure.failures + 1},
            )
        )


def _limits(email: str, address: str) -> dict[str, int]:
    """What a failure is counted by, and how many are let through."""
    account = f"account:{hashlib.sha256(email.encode()).hexdigest()[:32]}"
    return {account: LIMIT_IN_ALL, f"{account}@{network_of(address)}": LIMIT_FROM_ONE_NETWORK}


def _window_start() -> object:
    return func.date_bin(literal(WINDOW), func.now(), func.to_timestamp(literal(0)))
