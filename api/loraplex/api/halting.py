"""Ends what runs for tenants that were suspended or deleted, soon after they were."""

import asyncio

import structlog
from sqlalchemy import ARRAY, Uuid, bindparam, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from loraplex.api.draining import Draining
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.errors import TenantSuspended
from loraplex.platform.tenancy.identity import TenantId

EVERY_SECONDS = 1.0
HALTED = text("SELECT * FROM gateway.halted_tenants(:candidates)").bindparams(
    bindparam("candidates", type_=ARRAY(Uuid()))
)

log = structlog.get_logger(__name__)


class HaltedTenants:
    """One gateway's watch over the tenants of its running calls. An idle gateway asks nothing."""

    def __init__(self, database: Database, draining: Draining) -> None:
        self._database = database
        self._draining = draining

    async def keep_ending(self) -> None:
        """Look again and again, until cancelled; a database that is away is asked again."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            try:
                await self.end_calls()
            except (DBAPIError, PoolTimeout, OSError) as error:
                log.warning("halted_tenants_unknown", error=type(error).__name__)

    async def end_calls(self) -> None:
        """End the running calls of tenants that are not active, each with an error."""
        candidates = self._draining.tenants()
        if not candidates:
            return
        async with self._database.unit_of_work() as session:
            rows = (await session.execute(HALTED, {"candidates": list(candidates)})).all()
        for tenant_id, name in rows:
            self._draining.abort_tenant(TenantId(tenant_id), TenantSuspended(name))
