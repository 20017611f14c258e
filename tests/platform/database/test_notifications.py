"""Whoever waits for a notification can be cancelled at any moment, also when one has just come."""

import asyncio

import pytest

from loraplex.platform.database.notifications import woken


async def wait_for_ever(wake: asyncio.Event) -> None:
    while True:
        await woken(wake, 60)
        wake.clear()


@pytest.mark.parametrize("turns", range(6))
async def test_a_cancellation_counts_however_soon_it_comes_after_the_wake(turns: int) -> None:
    wake = asyncio.Event()
    waiting = asyncio.create_task(wait_for_ever(wake))
    for _ in range(5):
        await asyncio.sleep(0)
    wake.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    waiting.cancel()
    done, _ = await asyncio.wait([waiting], timeout=5)
    assert done
    assert waiting.cancelled()


async def test_without_a_wake_the_wait_ends_by_itself() -> None:
    await woken(asyncio.Event(), 0.01)
