"""Removes all that a tenant has but its bill and its audit log, which lose their names.

Every step may be done again, and the row of the deletion is closed by the last one alone: a run
that dies anywhere is taken up by the next. Nobody gets in meanwhile: the request for the deletion
has ended keys, memberships and links. Rows go before the objects that they speak of, and no object
goes while a backup copies: at every moment a backup finds all bytes that its rows speak of.
"""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import column, delete, func, select, table, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.tenants.catalogue import KEPT, SCRUBBED, tenant_tables
from loraplex.adapters_registry.tenants.claims import LONGEST_ERROR, Claim, claim_deletion, renew
from loraplex.platform.admission.models import Reservation
from loraplex.platform.blobs import may_delete
from loraplex.platform.database.sessions import Database
from loraplex.platform.leases import LeaseLost, under_lease
from loraplex.platform.lifecycle.models import FormerTenantName, TenantDeletion
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.people.models import Membership
from loraplex.platform.pools.models import WantedAdapter
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.administration import NAME_PURPOSE
from loraplex.platform.tenancy.models import ApiKey, Tenant, TenantState

BATCH = 5000
OBJECTS = 100
"""How many are deleted before a backup that waits gets its turn."""
GONE = "deleted"
UNSYNCHRONISED = {"synchronize_session": False}


class NotYet(Exception):
    """Something has to end first; the next sweep tries again."""


class CallsStillRun(NotYet):
    """Requests of the tenant have not been settled yet."""


class BackupRuns(NotYet):
    """A backup copies what may have been the tenant's."""


@dataclass(frozen=True)
class Deleter:
    """Works on role `system`, beside the store."""

    database: Database
    store: ObjectStore
    secrets: SecretKeys

    async def delete(self, tenant_id: UUID) -> bool:
        """Do what is left to do; False when there is nothing, or it cannot be done yet."""
        async with self.database.unit_of_work() as session:
            claim = await claim_deletion(session, tenant_id)
        if claim is None:
            return False
        try:
            await under_lease(
                self._purge(claim), lambda: renew(self.database, TenantDeletion, claim)
            )
        except (LeaseLost, NotYet):
            return False
        except Exception as error:
            await self._failed(claim, error)
            raise
        return True

    async def _purge(self, claim: Claim) -> None:
        await self._wait_for_calls(claim)
        # Again until there is nothing: an upload may have ended meanwhile.
        while await self._purge_rows(claim) | await purge_objects(
            self.database, self.store, claim.namespace
        ):
            pass
        async with self.database.unit_of_work() as session:
            await self._take_names(session, claim)

    async def _wait_for_calls(self, claim: Claim) -> None:
        mine = select(Reservation.request_id).where(Reservation.tenant_id == claim.tenant_id)
        async with self.database.unit_of_work() as session:
            if await session.scalar(mine.limit(1)) is not None:
                raise CallsStillRun

    async def _purge_rows(self, claim: Claim) -> bool:
        """Delete every row but the bill; whether there were any."""
        had_any = False
        async with self.database.unit_of_work() as session:
            tables = [one.name for one in await tenant_tables(session)]
            await session.execute(
                delete(WantedAdapter).where(WantedAdapter.namespace == claim.namespace)
            )
        for name in tables:
            if name not in KEPT | SCRUBBED:
                while await self._purge_batch(name, claim):
                    had_any = True
        return had_any

    async def _purge_batch(self, name: str, claim: Claim) -> bool:
        """Delete some of the tenant's rows of one table; whether there were any."""
        rows = table(name, column("tenant_id"), column("ctid"))
        some = select(rows.c.ctid).where(rows.c.tenant_id == claim.tenant_id).limit(BATCH)
        async with self.database.unit_of_work() as session:
            gone = await session.execute(
                delete(rows)
                .where(rows.c.ctid.in_(some.scalar_subquery()))
                .returning(rows.c.tenant_id)
            )
            return bool(gone.all())

    async def _take_names(self, session: AsyncSession, claim: Claim) -> None:
        """Rows of the bill and of the log keep what they count; whoever they name goes."""
        mine = {"tenant": claim.tenant_id}
        await session.execute(text("SELECT gateway.pseudonymise_ledger(:tenant)"), mine)
        await session.execute(text("SELECT gateway.pseudonymise_audit(:tenant)"), mine)
        await session.execute(
            insert(FormerTenantName)
            .values(name_mac=self.secrets.mac(NAME_PURPOSE, claim.tenant_name.encode()))
            .on_conflict_do_nothing()
        )
        await _scrub_keys(session, claim)
        await _scrub_memberships(session, claim)
        await session.execute(
            update(Tenant)
            .where(Tenant.id == claim.tenant_id)
            .values(
                name=f"{GONE}-{claim.tenant_id}",
                display_name="",
                state=TenantState.DELETED,
                state_changed_at=func.now(),
            )
        )
        await session.execute(
            update(TenantDeletion)
            .where(
                TenantDeletion.tenant_id == claim.tenant_id,
                TenantDeletion.attempts == claim.attempt,
            )
            .values(finished_at=func.now(), last_error=None)
        )

    async def _failed(self, claim: Claim, error: Exception) -> None:
        async with self.database.unit_of_work() as session:
            await session.execute(
                update(TenantDeletion)
                .where(TenantDeletion.tenant_id == claim.tenant_id)
                .values(last_error=type(error).__name__[:LONGEST_ERROR])
            )


async def purge_objects(database: Database, store: ObjectStore, namespace: str) -> bool:
    """Delete what lies under a namespace that no row speaks of any more; whether there was any.

    Raises BackupRuns; what was deleted before that stays deleted.
    """
    prefix, had_any = f"tenants/{namespace}/", False
    for upload in await asyncio.to_thread(store.multipart_uploads, prefix):
        await asyncio.to_thread(store.abort_multipart_upload, upload)
    while keys := (await asyncio.to_thread(store.keys, prefix))[:OBJECTS]:
        had_any = True
        async with database.unit_of_work() as session:
            if not await may_delete(session):
                raise BackupRuns
            for key in keys:
                await asyncio.to_thread(store.delete, key)
    return had_any


async def _scrub_keys(session: AsyncSession, claim: Claim) -> None:
    mine = ApiKey.tenant_id == claim.tenant_id
    billed = select(LedgerEntry.api_key_id).where(
        LedgerEntry.tenant_id == claim.tenant_id, LedgerEntry.api_key_id == ApiKey.id
    )
    await session.execute(
        update(ApiKey)
        .where(mine)
        .values(
            name=GONE,
            label=GONE,
            # No text has this hash: a hash of ours is an HMAC.
            key_hash=func.sha256(func.uuid_send(func.gen_random_uuid())),
            member_id=None,
            models=None,
            replaced_by_id=None,
        )
    )
    await session.execute(
        delete(ApiKey).where(mine, ~billed.exists()), execution_options=UNSYNCHRONISED
    )


async def _scrub_memberships(session: AsyncSession, claim: Claim) -> None:
    mine = Membership.tenant_id == claim.tenant_id
    billed = select(LedgerEntry.member_id).where(
        LedgerEntry.tenant_id == claim.tenant_id, LedgerEntry.member_id == Membership.id
    )
    ended = func.coalesce(Membership.ended_at, func.now())
    await session.execute(update(Membership).where(mine).values(user_id=None, ended_at=ended))
    await session.execute(
        delete(Membership).where(mine, ~billed.exists()), execution_options=UNSYNCHRONISED
    )
