"""Lets a request in, or not, and settles it when it ends: one transaction each.

A reservation is a lease. The gateway that holds it renews it while the request runs; what a dead
gateway held lapses, counts no longer, and is swept.
"""

import asyncio
from datetime import timedelta
from typing import NoReturn

from sqlalchemy import String, Uuid, bindparam, delete, func, literal, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncSession
from structlog import get_logger

from loraplex.engine.protocol.identity import Digest
from loraplex.platform.admission.errors import TooManyConcurrentRequests
from loraplex.platform.admission.models import Reservation
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering import service as metering
from loraplex.platform.metering.service import Usage
from loraplex.platform.tenancy.errors import TenantSuspended
from loraplex.platform.tenancy.models import Tenant, TenantState
from loraplex.platform.tenancy.principals import TenantPrincipal

LEASE = timedelta(seconds=30)
RENEW_SECONDS = 10

# The lock makes the count and the insert one step for each tenant, without a write to its row.
# Losing a reservation in a crash does no harm, so its commit need not wait for the disk.
BEGIN_ADMISSION = text(
    "SELECT set_config('synchronous_commit', 'off', true),"
    " pg_advisory_xact_lock(hashtextextended(:tenant, 0))"
)
RENEW = text("SELECT gateway.renew_reservations(:gateway, :requests, :lease)").bindparams(
    bindparam("lease", LEASE)
)

log = get_logger(__name__)


class Admission:
    """One gateway's admissions. `gateway_id` is the running process's own, new at every start."""

    def __init__(self, database: Database, gateway_id: str) -> None:
        self._database = database
        self._gateway_id = gateway_id
        self._held: set[str] = set()

    async def admit(
        self,
        principal: TenantPrincipal,
        request_id: str,
        weights_digest: Digest | None = None,
    ) -> None:
        """Reserve the request's place among its tenant's, and its adapter's bytes.

        Raises TooManyConcurrentRequests and TenantSuspended; nothing is reserved then. What is
        admitted must be settled, however it ends.
        """
        async with self._database.unit_of_work(principal.tenant_id) as session:
            await session.execute(BEGIN_ADMISSION, {"tenant": str(principal.tenant_id)})
            if not await self._reserve(session, principal, request_id, weights_digest):
                await _refuse(session, principal)
        self._held.add(request_id)

    async def settle(self, principal: TenantPrincipal, usage: Usage) -> None:
        """Write the ledger row and give the place back: both or neither, once however often called.

        When it fails the caller may try again; the place is given back by its lease meanwhile.
        """
        self._held.discard(usage.request_id)
        async with self._database.unit_of_work(principal.tenant_id) as session:
            await metering.record(
                session,
                principal.tenant_id,
                usage,
                api_key_id=principal.key_id,
                member_id=principal.member_id,
            )
            await session.execute(
                delete(Reservation).where(
                    Reservation.tenant_id == principal.tenant_id,
                    Reservation.request_id == usage.request_id,
                )
            )

    async def renew(self) -> None:
        """Renew the leases of this gateway's running requests."""
        if not self._held:
            return
        async with self._database.unit_of_work() as session:
            await session.execute(
                RENEW, {"gateway": self._gateway_id, "requests": sorted(self._held)}
            )

    async def keep_renewing(self) -> None:
        """Renew for ever, until cancelled; an unreachable database is tried again."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self.renew()
            except (DBAPIError, PoolTimeout) as error:
                log.warning("reservations_not_renewed", error=type(error).__name__)

    async def _reserve(
        self,
        session: AsyncSession,
        principal: TenantPrincipal,
        request_id: str,
        weights_digest: Digest | None,
    ) -> bool:
        running = (
            select(func.count())
            .select_from(Reservation)
            .where(
                Reservation.tenant_id == principal.tenant_id,
                Reservation.expires_at > func.clock_timestamp(),
            )
            .scalar_subquery()
        )
        place = select(
            Tenant.id,
            literal(request_id),
            literal(self._gateway_id),
            literal(principal.key_id, Uuid),
            literal(weights_digest, String),
            func.clock_timestamp() + literal(LEASE),
        ).where(
            Tenant.id == principal.tenant_id,
            Tenant.state == TenantState.ACTIVE,
            running < Tenant.max_concurrent_requests,
        )
        columns = ["tenant_id", "request_id", "gateway_id", "api_key_id", "weights_digest"]
        statement = (
            insert(Reservation)
            .from_select([*columns, "expires_at"], place)
            .returning(Reservation.tenant_id)
        )
        return await session.scalar(statement) is not None


async def _refuse(session: AsyncSession, principal: TenantPrincipal) -> NoReturn:
    tenant = (await session.scalars(select(Tenant).where(Tenant.id == principal.tenant_id))).one()
    if tenant.state != TenantState.ACTIVE:
        raise TenantSuspended(tenant.name)
    raise TooManyConcurrentRequests(tenant.max_concurrent_requests)


async def sweep_reservations(session: AsyncSession) -> int:
    """Delete lapsed reservations of every tenant (role `system`); how many there were."""
    lapsed = await session.scalars(
        delete(Reservation)
        .where(Reservation.expires_at < func.clock_timestamp())
        .returning(Reservation.request_id)
    )
    return len(lapsed.all())
