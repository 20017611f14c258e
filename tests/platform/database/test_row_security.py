"""What role `app` can do to another tenant's rows: nothing, and it cannot tell that they exist."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import IntegrityError, ProgrammingError

from loraplex.adapters_registry.versions.models import Adapter, AdapterVersion, BaseModel
from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import ApiKey, Tenant

DENIED = "row-level security"


@dataclass(frozen=True)
class Owned:
    tenant_id: TenantId
    adapter_id: UUID
    base_id: UUID


@pytest.fixture
async def base_id(system_database: Database) -> UUID:
    base = BaseModel(name=f"base-{uuid4().hex}", digest="sha256:0", module_table={})
    async with system_database.unit_of_work() as session:
        session.add(base)
    return base.id


async def new_tenant(system: Database, base_id: UUID) -> Owned:
    administration = TenantAdministration(SecretKeys(["k" * 32]))
    async with system.unit_of_work() as session:
        tenant = await administration.create_tenant(session, f"t-{uuid4().hex}")
        await administration.create_key(session, tenant, "ci")
        adapter = Adapter(tenant_id=tenant.id, name="support", base_model_id=base_id)
        session.add(adapter)
    return Owned(TenantId(tenant.id), adapter.id, base_id)


@pytest.fixture
async def mine(system_database: Database, base_id: UUID) -> Owned:
    return await new_tenant(system_database, base_id)


@pytest.fixture
async def theirs(system_database: Database, base_id: UUID) -> AsyncIterator[Owned]:
    neighbour = await new_tenant(system_database, base_id)
    yield neighbour
    async with system_database.unit_of_work() as session:
        name = await session.scalar(select(Adapter.name).where(Adapter.id == neighbour.adapter_id))
    assert name == "support", "a neighbour's row was changed"


async def test_a_tenant_sees_its_own_rows_only(
    database: Database, mine: Owned, theirs: Owned
) -> None:
    async with database.unit_of_work(mine.tenant_id) as session:
        assert (await session.scalars(select(Adapter.id))).all() == [mine.adapter_id]
        assert (await session.scalars(select(Tenant.id))).all() == [mine.tenant_id]


async def test_without_a_tenant_there_is_nothing_to_see(database: Database, mine: Owned) -> None:
    async with database.unit_of_work() as session:
        assert await session.scalar(select(func.count()).select_from(Adapter)) == 0
        assert await session.scalar(select(func.count()).select_from(Tenant)) == 0


async def test_a_connection_that_served_a_tenant_shows_the_next_borrower_nothing(
    services_url: str, mine: Owned
) -> None:
    database = Database(services_url, pool_size=1)
    async with database.unit_of_work(mine.tenant_id) as session:
        backend = await session.scalar(text("SELECT pg_backend_pid()"))
        assert await session.scalar(select(func.count()).select_from(Adapter)) == 1
    async with database.unit_of_work() as session:
        assert await session.scalar(text("SELECT pg_backend_pid()")) == backend
        assert await session.scalar(select(func.count()).select_from(Adapter)) == 0
    await database.dispose()


async def test_a_rolled_back_savepoint_keeps_the_tenant(database: Database, mine: Owned) -> None:
    async with database.unit_of_work(mine.tenant_id) as session:
        nested = await session.begin_nested()
        await nested.rollback()
        assert await session.scalar(select(func.count()).select_from(Adapter)) == 1


async def test_updating_a_neighbours_row_finds_none(
    database: Database, mine: Owned, theirs: Owned
) -> None:
    async with database.unit_of_work(mine.tenant_id) as session:
        changed = await session.scalars(
            update(Adapter)
            .where(Adapter.id == theirs.adapter_id)
            .values(name="stolen")
            .returning(Adapter.id)
        )
        assert changed.all() == []


async def test_a_row_cannot_be_written_for_a_neighbour(
    database: Database, mine: Owned, theirs: Owned
) -> None:
    with pytest.raises(ProgrammingError, match=DENIED):
        async with database.unit_of_work(mine.tenant_id) as session:
            session.add(
                Adapter(tenant_id=theirs.tenant_id, name="planted", base_model_id=mine.base_id)
            )


async def test_a_row_cannot_be_handed_to_a_neighbour(
    database: Database, mine: Owned, theirs: Owned
) -> None:
    with pytest.raises(ProgrammingError, match=DENIED):
        async with database.unit_of_work(mine.tenant_id) as session:
            await session.execute(
                update(Adapter)
                .where(Adapter.id == mine.adapter_id)
                .values(tenant_id=theirs.tenant_id)
            )


async def test_nothing_can_be_hung_on_a_neighbours_row(
    database: Database, mine: Owned, theirs: Owned
) -> None:
    version = AdapterVersion(
        tenant_id=mine.tenant_id,
        adapter_id=theirs.adapter_id,
        number=1,
        digest="sha256:1",
        base_digest="sha256:0",
        config_digest="sha256:2",
        weights_digest="sha256:3",
        size_bytes=1,
        deadline_at=datetime.now(UTC),
    )
    with pytest.raises(IntegrityError, match="adapter_versions_tenant_id_adapter_id_fkey"):
        async with database.unit_of_work(mine.tenant_id) as session:
            session.add(version)


async def test_two_tenants_may_use_one_name(mine: Owned, theirs: Owned) -> None:
    assert mine.adapter_id != theirs.adapter_id


async def test_app_reads_its_tenants_keys_but_no_hash(
    database: Database, mine: Owned, theirs: Owned
) -> None:
    async with database.unit_of_work(mine.tenant_id) as session:
        keys = (await session.scalars(select(ApiKey))).all()
    assert [key.tenant_id for key in keys] == [mine.tenant_id]
    with pytest.raises(ProgrammingError, match="permission denied for table api_keys"):
        async with database.unit_of_work(mine.tenant_id) as session:
            await session.execute(select(ApiKey.key_hash))


@pytest.mark.parametrize("role", ["loraplex_system", "loraplex_migrator", "postgres"])
async def test_app_cannot_become_another_role(database: Database, role: str) -> None:
    with pytest.raises(ProgrammingError, match="permission denied to set role"):
        async with database.unit_of_work() as session:
            await session.execute(text(f"SET ROLE {role}"))


async def test_system_sees_every_tenant(
    system_database: Database, mine: Owned, theirs: Owned
) -> None:
    async with system_database.unit_of_work() as session:
        seen = set((await session.scalars(select(Adapter.id))).all())
    assert {mine.adapter_id, theirs.adapter_id} <= seen


async def test_readonly_reads_every_tenant_and_changes_none(
    readonly_url: str, mine: Owned, theirs: Owned
) -> None:
    database = Database(readonly_url)
    async with database.unit_of_work() as session:
        seen = set((await session.scalars(select(Adapter.id))).all())
    assert {mine.adapter_id, theirs.adapter_id} <= seen
    with pytest.raises(ProgrammingError, match="permission denied"):
        async with database.unit_of_work() as session:
            await session.execute(update(Adapter).values(name="changed"))
    await database.dispose()
