import asyncio
from itertools import count

import pytest
from sqlalchemy.exc import OperationalError

from loraplex.platform.leases import LeaseLost, under_lease

SOON = 0.01


async def test_the_lease_is_renewed_for_as_long_as_the_work_takes() -> None:
    renewals, enough = count(), asyncio.Event()

    async def renew() -> bool:
        if next(renewals) == 3:
            enough.set()
        return True

    async def work() -> str:
        await enough.wait()
        return "done"

    assert await under_lease(work(), renew, SOON) == "done"


async def test_work_whose_lease_is_lost_ends_before_anybody_goes_on() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("work")

    async def renew() -> bool:
        return False

    with pytest.raises(LeaseLost):
        await under_lease(work(), renew, SOON)
    assert ended == ["work"]


async def test_a_database_that_is_away_takes_no_lease() -> None:
    away, enough = iter([OSError(), OperationalError("", {}, Exception())]), asyncio.Event()

    async def renew() -> bool:
        for error in away:
            raise error
        enough.set()
        return True

    async def work() -> str:
        await enough.wait()
        return "done"

    assert await under_lease(work(), renew, SOON) == "done"


async def test_what_the_work_raises_is_raised() -> None:
    async def work() -> None:
        raise ValueError("of the work")

    async def renew() -> bool:
        raise AssertionError("there was no time for it")

    with pytest.raises(ValueError, match="of the work"):
        await under_lease(work(), renew, 60)


async def test_a_time_limit_cancels_the_work_too() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def renew() -> bool:
        return True

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SOON):
            await under_lease(work(), renew, 60)
    assert ended.is_set()
