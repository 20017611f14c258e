"""What gateways know of switches, and how soon."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from loraplex.platform.database.changes import Changes
from loraplex.platform.database.sessions import Database
from loraplex.platform.metrics import SWITCHES
from loraplex.platform.switches import cache
from loraplex.platform.switches.cache import Switches
from loraplex.platform.switches.errors import ReadOnly
from loraplex.platform.switches.names import READ_ONLY
from tests.platform.pools.conftest import until
from tests.switched import switched_on, turned

IN_FORCE_SECONDS = 5.0


@pytest.fixture
async def gateways(database: Database) -> AsyncIterator[list[Switches]]:
    """Two gateways' caches: one that listens, and one that hears nothing."""
    changes = Changes(database)
    gateways = [Switches(database), Switches(database)]
    gateways[0].watch(changes)
    tasks = [asyncio.create_task(one.keep_current()) for one in gateways]
    tasks.append(asyncio.create_task(changes.listen()))
    yield gateways
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def seconds_until(gateways: list[Switches], *, is_on: bool) -> float:
    return await until(lambda: all((READ_ONLY in one.on) is is_on for one in gateways))


async def test_a_turn_is_in_force_on_every_gateway_within_five_seconds(
    gateways: list[Switches], system_database: Database
) -> None:
    async with switched_on(system_database, READ_ONLY):
        assert await seconds_until(gateways, is_on=True) < IN_FORCE_SECONDS
        for one in gateways:
            with pytest.raises(ReadOnly):
                one.refuse_if_read_only()
        assert SWITCHES.labels(READ_ONLY)._value.get() == 1
    assert await seconds_until(gateways, is_on=False) < IN_FORCE_SECONDS
    for one in gateways:
        one.refuse_if_read_only()


async def test_who_listens_is_told_at_once(
    gateways: list[Switches], system_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "ASK_SECONDS", 3600.0)
    await asyncio.sleep(0)
    try:
        await turned(system_database, READ_ONLY, is_on=True)
        assert await seconds_until(gateways[:1], is_on=True) < IN_FORCE_SECONDS
    finally:
        await turned(system_database, READ_ONLY, is_on=False)


async def test_without_a_database_what_was_known_stays(system_database: Database) -> None:
    away = Database("postgresql://loraplex_app@127.0.0.1:1/loraplex")
    switches = Switches(system_database)
    async with switched_on(system_database, READ_ONLY):
        await switches.read()
    switches._database = away
    await switches.read()
    assert READ_ONLY in switches.on
