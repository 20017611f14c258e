from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Delete, Update, delete, select, update
from sqlalchemy.exc import IntegrityError, ProgrammingError

from loraplex.engine.protocol.identity import Digest
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.metering.service import Usage, record
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId

ADAPTER_ID = uuid4()


async def new_tenant(system: Database) -> tuple[TenantId, UUID]:
    administration = TenantAdministration(SecretKeys(["k" * 32]))
    async with system.unit_of_work() as session:
        tenant = await administration.create_tenant(session, f"t-{uuid4().hex}")
        key, _ = await administration.create_key(session, tenant, "ci")
    return TenantId(tenant.id), key.id


def usage(**changes: int) -> Usage:
    counts = {"prompt_tokens": 11, "cached_tokens": 0, "output_tokens": 5} | changes
    return Usage(
        request_id="chatcmpl-1",
        model="support:v2",
        adapter_digest=Digest("sha256:ab"),
        outcome="length",
        admitted_at=datetime(2026, 1, 2, tzinfo=UTC),
        adapter_id=ADAPTER_ID,
        adapter_version=2,
        error_code=None,
        **counts,
    )


async def test_a_row_tells_all_of_the_usage(database: Database, system_database: Database) -> None:
    tenant_id, key_id = await new_tenant(system_database)
    async with database.unit_of_work(tenant_id) as session:
        await record(session, tenant_id, key_id, usage())
    async with database.unit_of_work(tenant_id) as session:
        row = (await session.scalars(select(LedgerEntry))).one()
    assert (row.tenant_id, row.api_key_id) == (tenant_id, key_id)
    written = {name: getattr(row, name) for name in Usage.__slots__}
    assert written == {name: getattr(usage(), name) for name in Usage.__slots__}


async def test_two_tenants_may_have_a_request_of_one_id(
    database: Database, system_database: Database
) -> None:
    for _ in range(2):
        tenant_id, key_id = await new_tenant(system_database)
        async with database.unit_of_work(tenant_id) as session:
            await record(session, tenant_id, key_id, usage())
            assert len((await session.scalars(select(LedgerEntry))).all()) == 1


async def test_a_neighbours_key_cannot_be_billed(
    database: Database, system_database: Database
) -> None:
    tenant_id, _ = await new_tenant(system_database)
    _, their_key = await new_tenant(system_database)
    with pytest.raises(IntegrityError, match="ledger_tenant_id_api_key_id_fkey"):
        async with database.unit_of_work(tenant_id) as session:
            await record(session, tenant_id, their_key, usage())


async def test_negative_counts_are_impossible(
    database: Database, system_database: Database
) -> None:
    tenant_id, key_id = await new_tenant(system_database)
    with pytest.raises(IntegrityError, match="ledger_output_tokens_check"):
        async with database.unit_of_work(tenant_id) as session:
            await record(session, tenant_id, key_id, usage(output_tokens=-1))


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
