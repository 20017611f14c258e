from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Delete, Update, delete, select, text, update
from sqlalchemy.exc import IntegrityError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.engine.protocol.identity import Digest
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.metering.service import SettledBy, Usage, record
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant, TenantState
from tests.platform.metering.made import made_price

ADAPTER_ID, MEMBER_ID = uuid4(), uuid4()
PRICE = made_price(400_000, 100_000, 1_200_000)


async def new_tenant(system: Database) -> tuple[TenantId, UUID]:
    administration = TenantAdministration(SecretKeys(["k" * 32]))
    async with system.unit_of_work() as session:
        tenant = await administration.create_tenant(session, f"t-{uuid4().hex}")
        key, _ = await administration.create_key(session, tenant, "ci")
    return TenantId(tenant.id), key.id


def usage(**changes: int) -> Usage:
    counts = {"prompt_tokens": 11, "cached_tokens": 4, "output_tokens": 5} | changes
    return Usage(
        request_id="chatcmpl-1",
        model="support:v2",
        adapter_digest=Digest("sha256:ab"),
        outcome="length",
        admitted_at=datetime(2026, 1, 2, tzinfo=UTC),
        adapter_id=ADAPTER_ID,
        adapter_version=2,
        error_code=None,
        price=PRICE,
        base_model="base",
        worker_id="worker-1",
        queue_ms=1,
        ttft_ms=20,
        duration_ms=300,
        settled_by=SettledBy.RECOVERY,
        **counts,
    )


async def test_a_row_tells_all_of_the_usage(database: Database, system_database: Database) -> None:
    tenant_id, key_id = await new_tenant(system_database)
    async with database.unit_of_work(tenant_id) as session:
        await record(session, tenant_id, usage(), api_key_id=key_id)
    async with database.unit_of_work(tenant_id) as session:
        row = (await session.scalars(select(LedgerEntry))).one()
    assert (row.tenant_id, row.api_key_id) == (tenant_id, key_id)
    told = [name for name in Usage.__slots__ if name != "price"]
    assert {name: getattr(row, name) for name in told} == {
        name: getattr(usage(), name) for name in told
    }
    # 7 x 0.4 + 4 x 0.1 + 5 x 1.2 micros
    assert (row.price_id, row.cost_micros) == (PRICE.id, 10)


async def test_the_first_of_two_settlements_is_told_from_the_second(
    database: Database, system_database: Database
) -> None:
    tenant_id, key_id = await new_tenant(system_database)
    for is_first in (True, False):
        async with database.unit_of_work(tenant_id) as session:
            assert await record(session, tenant_id, usage(), api_key_id=key_id) is is_first


async def test_a_person_without_a_key_pays_too_but_nobody_is_no_payer(
    database: Database, system_database: Database
) -> None:
    tenant_id, _ = await new_tenant(system_database)
    async with database.unit_of_work(tenant_id) as session:
        await record(session, tenant_id, usage(), api_key_id=None, member_id=MEMBER_ID)
        row = (await session.scalars(select(LedgerEntry))).one()
        assert (row.api_key_id, row.member_id) == (None, MEMBER_ID)
    with pytest.raises(IntegrityError, match="ledger_payer_check"):
        async with database.unit_of_work(tenant_id) as session:
            other = replace(usage(), request_id="chatcmpl-2")
            await record(session, tenant_id, other, api_key_id=None)


async def test_two_tenants_may_have_a_request_of_one_id(
    database: Database, system_database: Database
) -> None:
    for _ in range(2):
        tenant_id, key_id = await new_tenant(system_database)
        async with database.unit_of_work(tenant_id) as session:
            await record(session, tenant_id, usage(), api_key_id=key_id)
            assert len((await session.scalars(select(LedgerEntry))).all()) == 1


async def test_a_neighbours_key_cannot_be_billed(
    database: Database, system_database: Database
) -> None:
    tenant_id, _ = await new_tenant(system_database)
    _, their_key = await new_tenant(system_database)
    with pytest.raises(IntegrityError, match="ledger_tenant_id_api_key_id_fkey"):
        async with database.unit_of_work(tenant_id) as session:
            await record(session, tenant_id, usage(), api_key_id=their_key)


async def test_negative_counts_are_impossible(
    database: Database, system_database: Database
) -> None:
    tenant_id, key_id = await new_tenant(system_database)
    with pytest.raises(ValueError, match="counted from 0"):
        async with database.unit_of_work(tenant_id) as session:
            await record(session, tenant_id, usage(output_tokens=-1), api_key_id=key_id)
    with pytest.raises(IntegrityError, match="ledger_cached_check"):
        async with database.unit_of_work(tenant_id) as session:
            await record(session, tenant_id, usage(cached_tokens=12), api_key_id=key_id)


@pytest.mark.parametrize(
    "change", [update(LedgerEntry).values(output_tokens=0), delete(LedgerEntry)]
)
async def test_what_is_written_stays(
    database: Database, system_database: Database, change: Update | Delete
) -> None:
    for role in (database, system_database):
        with pytest.raises(ProgrammingError, match="permission denied for table ledger"):
            async with role.unit_of_work() as session:
                await session.execute(change)


async def test_a_deleted_tenants_ledger_forgets_names_and_keeps_the_bill(
    database: Database, system_database: Database
) -> None:
    deleted, key_id = await new_tenant(system_database)
    other, other_key = await new_tenant(system_database)
    for tenant_id, api_key_id in ((deleted, key_id), (other, other_key)):
        async with database.unit_of_work(tenant_id) as session:
            await record(session, tenant_id, usage(), api_key_id=api_key_id)
    assert await pseudonymise(system_database, deleted) == 0, "it is still active"
    async with system_database.unit_of_work() as session:
        before = await everything(session, deleted)
        gone = update(Tenant).where(Tenant.id == deleted)
        await session.execute(gone.values(state=TenantState.SUSPENDED))
    assert await pseudonymise(system_database, deleted) == 1
    async with system_database.unit_of_work() as session:
        assert await everything(session, deleted) == before | {"model": "deleted"}
        assert (await everything(session, other))["model"] == "support:v2"
    with pytest.raises(ProgrammingError, match="permission denied for function"):
        await pseudonymise(database, deleted)


async def pseudonymise(role: Database, tenant_id: TenantId) -> int | None:
    async with role.unit_of_work() as session:
        changed: int | None = await session.scalar(
            text("SELECT gateway.pseudonymise_ledger(:tenant)"), {"tenant": tenant_id}
        )
        return changed


async def everything(session: AsyncSession, tenant_id: TenantId) -> dict[str, object]:
    table = LedgerEntry.__table__
    row = (await session.execute(select(table).where(table.c.tenant_id == tenant_id))).one()
    return dict(row._mapping)
