"""What is switched on, as one gateway knows it: told of changes, and asking every other second."""

import asyncio
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from structlog import get_logger

from loraplex.platform.database.changes import Changes
from loraplex.platform.database.notifications import woken
from loraplex.platform.database.sessions import Database
from loraplex.platform.metrics import SWITCHES
from loraplex.platform.switches.errors import ReadOnly
from loraplex.platform.switches.names import DRAIN_POOL, FIXED, READ_ONLY
from loraplex.platform.switches.service import names_on

ASK_SECONDS = 2.0
"""How old an answer gets: a change is in force within five seconds even if nothing is heard."""

log = get_logger(__name__)


class Switches:
    """One gateway's view. Without a database, what was last known stays in force."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._on: frozenset[str] = frozenset()
        self._wanted = asyncio.Event()
        self._reading = asyncio.Lock()

    @property
    def on(self) -> frozenset[str]:
        """The names of the switches that are on."""
        return self._on

    def is_drained(self, pool: str) -> bool:
        """Whether new requests keep away from the pool's workers."""
        return DRAIN_POOL + pool in self._on

    def refuse_if_read_only(self) -> None:
        """Raise ReadOnly if it is so."""
        if READ_ONLY in self._on:
            raise ReadOnly

    def watch(self, changes: Changes) -> None:
        """Ask at once when a switch was turned, or may have been."""
        changes.watch("switches", self._ask_soon)

    async def keep_current(self) -> None:
        """Ask again and again, until cancelled."""
        while True:
            self._wanted.clear()
            await self.read()
            await woken(self._wanted, ASK_SECONDS)

    async def read(self) -> None:
        """Read what is on; a database that does not answer changes nothing."""
        async with self._reading:  # an answer from before must not overtake one from after
            await self._read()

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(ASK_SECONDS), self._database.unit_of_work() as session:
                on = await names_on(session)
        except (DBAPIError, PoolTimeout, OSError) as error:
            log.warning("switches_not_read", error=type(error).__name__)
            return
        if on != self._on:
            log.info("switches_changed", on=sorted(on))
        for name in FIXED:
            SWITCHES.labels(name).set(name in on)
        drained = sum(name.startswith(DRAIN_POOL) for name in on)
        SWITCHES.labels("drain_pool").set(drained)
        self._on = on

    def _ask_soon(self, _: UUID | None) -> None:
        self._wanted.set()
