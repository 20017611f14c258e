"""The class of each call's credential, as one gateway knows it: told of changes."""

import asyncio
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from structlog import get_logger

from loraplex.platform.database.changes import MAX_CACHE_SECONDS, Changes
from loraplex.platform.database.notifications import woken
from loraplex.platform.database.sessions import Database
from loraplex.platform.slo.classes import SloClass, SloClasses
from loraplex.platform.tenancy.principals import TenantPrincipal

CHOICES = text("SELECT subject_id, slo_class FROM gateway.slo_choices()")
BUSIEST = text("SELECT tenant_name FROM gateway.busiest_tenants(:most)")

log = get_logger(__name__)


class SloChoices:
    """All choices at hand, so that no call asks for its own. Without a database they stay."""

    def __init__(self, database: Database, classes: SloClasses) -> None:
        self._database = database
        self._classes = classes
        self._chosen: dict[UUID, str] = {}
        self._wanted = asyncio.Event()

    def class_of(self, principal: TenantPrincipal) -> SloClass:
        """The key's, else its tenant's, else the default; so, too, for a class that is no more."""
        return self._of(principal.key_id) or self.class_of_tenant(principal)

    def class_of_tenant(self, principal: TenantPrincipal) -> SloClass:
        """Whatever its keys have: a tenant is one where tenants share what there is."""
        return self._of(principal.tenant_id) or self._classes.default

    def _of(self, subject: UUID | None) -> SloClass | None:
        name = None if subject is None else self._chosen.get(subject)
        return None if name is None else self._classes.by_name.get(name)

    def watch(self, changes: Changes) -> None:
        """Read again at once when a choice has changed, or may have."""
        changes.watch("slo_choices", lambda _: self._wanted.set())

    async def keep_current(self) -> None:
        """Read again and again, until cancelled."""
        while True:
            self._wanted.clear()
            try:
                await self.read()
            except (DBAPIError, PoolTimeout, OSError) as error:
                log.warning("slo_choices_unknown", error=type(error).__name__)
            await woken(self._wanted, MAX_CACHE_SECONDS)

    async def read(self) -> None:
        async with self._database.unit_of_work() as session:
            rows = await session.execute(CHOICES)
        self._chosen = dict(tuple(row) for row in rows)


async def busiest_tenants(database: Database, most: int) -> list[str]:
    """Names of the tenants with most requests in the last day; none while the database is away."""
    try:
        async with database.unit_of_work() as session:
            return list(await session.scalars(BUSIEST, {"most": most}))
    except (DBAPIError, PoolTimeout, OSError) as error:
        log.warning("busiest_tenants_unknown", error=type(error).__name__)
        return []
