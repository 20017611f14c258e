"""A kill switch that is on for as long as a block runs, whatever happens in it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from loraplex.platform.audit.actors import Actor
from loraplex.platform.database.sessions import Database
from loraplex.platform.switches.service import turn

TESTER = Actor.system("test")


@asynccontextmanager
async def switched_on(system: Database, name: str) -> AsyncIterator[None]:
    await turned(system, name, is_on=True)
    try:
        yield
    finally:
        await turned(system, name, is_on=False)


async def turned(system: Database, name: str, *, is_on: bool) -> None:
    async with system.unit_of_work() as session:
        await turn(session, TESTER, name, is_on=is_on, reason="a test")
