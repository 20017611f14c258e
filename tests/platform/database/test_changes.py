"""What a cache hears of rows that change, on the real Postgres."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy import text

from loraplex.platform.database.changes import APPLICATION_NAME, Changes
from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.administration import TenantAdministration

administration = TenantAdministration(SecretKeys(["k" * 32]))


class Heard:
    """What watchers of one table were told, in order."""

    def __init__(self, changes: Changes, table: str) -> None:
        self.told: asyncio.Queue[UUID | None] = asyncio.Queue()
        changes.watch(table, self.told.put_nowait)

    async def next(self) -> UUID | None:
        async with asyncio.timeout(20):
            return await self.told.get()


@pytest.fixture
async def changes(database: Database) -> AsyncIterator[Changes]:
    changes = Changes(database)
    begun = Heard(changes, "begun")
    listening = asyncio.create_task(changes.listen())
    assert await begun.next() is None
    yield changes
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


async def test_a_changed_row_is_named(changes: Changes, system_database: Database) -> None:
    keys, tenants = Heard(changes, "api_keys"), Heard(changes, "tenants")
    async with system_database.unit_of_work() as session:
        tenant = await administration.create_tenant(session, f"t-{uuid4().hex}")
        key, _ = await administration.create_key(session, tenant, "ci")
    async with system_database.unit_of_work() as session:
        await administration.revoke_key(session, key.id)
        await session.execute(
            text("UPDATE tenants SET state = 'suspended' WHERE id = :id"), {"id": tenant.id}
        )
    assert await keys.next() == key.id
    assert await tenants.next() == tenant.id
    assert keys.told.empty()


async def test_nothing_is_told_of_a_change_that_is_rolled_back(
    changes: Changes, system_database: Database
) -> None:
    heard = Heard(changes, "operator_keys")
    async with system_database.unit_of_work() as session:
        first, _ = await administration.create_operator_key(session, "first")
        second, _ = await administration.create_operator_key(session, "second")
    with pytest.raises(ZeroDivisionError):
        async with system_database.unit_of_work() as session:
            await administration.revoke_key(session, first.id)
            raise ZeroDivisionError
    async with system_database.unit_of_work() as session:
        await administration.revoke_key(session, second.id)
    assert await heard.next() == second.id


async def test_a_table_without_ids_tells_that_anything_may_have_changed(
    changes: Changes, system_database: Database
) -> None:
    heard = Heard(changes, "web_sessions")
    async with system_database.unit_of_work() as session:
        await session.execute(text("DELETE FROM web_sessions WHERE expires_at < now()"))
    assert await heard.next() is None


async def test_everything_is_forgotten_when_the_connection_drops_and_when_it_is_back(
    changes: Changes, system_database: Database, postgres_superuser_url: str
) -> None:
    heard = Heard(changes, "api_keys")
    with psycopg.connect(postgres_superuser_url, autocommit=True) as superuser:
        superuser.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            [APPLICATION_NAME],
        )
    assert await heard.next() is None
    assert await heard.next() is None
    async with system_database.unit_of_work() as session:
        tenant = await administration.create_tenant(session, f"t-{uuid4().hex}")
        key, _ = await administration.create_key(session, tenant, "ci")
    async with system_database.unit_of_work() as session:
        await administration.revoke_key(session, key.id)
    assert await heard.next() == key.id
