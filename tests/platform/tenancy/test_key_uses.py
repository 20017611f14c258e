"""When a key was last used is known to the minute, and costs no request anything."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import DBAPIError

from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.key_uses import KeyUses
from loraplex.platform.tenancy.key_views import ApiKeyView, OperatorKeyView
from loraplex.platform.tenancy.models import ApiKey, OperatorKey
from loraplex.platform.tenancy.service import Authenticator

LONG_AGO = datetime.now(UTC) - timedelta(days=3)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def made(
    system: Database, administration: TenantAdministration, name: str
) -> tuple[ApiKeyView, str]:
    async with system.unit_of_work() as session:
        tenant = await administration.create_tenant(session, name)
        return await administration.create_key(session, tenant, "ci")


async def last_used(system: Database, row: ApiKeyView | OperatorKeyView) -> datetime | None:
    model = ApiKey if isinstance(row, ApiKeyView) else OperatorKey
    async with system.unit_of_work() as session:
        return await session.scalar(select(model.last_used_at).where(model.id == row.id))


async def age(system: Database, row: ApiKeyView) -> None:
    """Make the key last used long ago."""
    async with system.unit_of_work() as session:
        mine = update(ApiKey).where(ApiKey.id == row.id)
        await session.execute(mine.values(last_used_at=LONG_AGO))


async def test_keys_of_both_kinds_are_recorded(
    database: Database,
    system_database: Database,
    administration: TenantAdministration,
    secret_keys: SecretKeys,
    name: str,
) -> None:
    row, text_of_key = await made(system_database, administration, name)
    async with system_database.unit_of_work() as session:
        operators, operators_text = await administration.create_operator_key(session, "oncall")
    authenticator = Authenticator(database, secret_keys)
    assert await last_used(system_database, row) is None
    await authenticator.authenticate(text_of_key, "192.0.2.9")
    await authenticator.authenticate(operators_text, "192.0.2.9")
    assert await last_used(system_database, row) is None
    await authenticator.uses.record()
    for one in (row, operators):
        used_at = await last_used(system_database, one)
        assert used_at is not None
        assert datetime.now(UTC) - used_at < timedelta(seconds=60)


async def test_a_gateway_writes_once_a_minute(
    database: Database, system_database: Database, administration: TenantAdministration, name: str
) -> None:
    row, _ = await made(system_database, administration, name)
    clock = Clock()
    uses = KeyUses(database, monotonic=clock)
    uses.saw(row.id)
    await uses.record()
    await age(system_database, row)
    clock.now += 59
    uses.saw(row.id)
    await uses.record()
    assert await last_used(system_database, row) == LONG_AGO
    clock.now += 1
    await uses.record()
    assert await last_used(system_database, row) != LONG_AGO


async def test_what_another_gateway_wrote_within_the_minute_stays(
    database: Database, system_database: Database, administration: TenantAdministration, name: str
) -> None:
    row, _ = await made(system_database, administration, name)
    written = []
    for _ in range(2):
        uses = KeyUses(database)
        uses.saw(row.id)
        await uses.record()
        written.append(await last_used(system_database, row))
    assert written[0] is not None
    assert written[1] == written[0]


async def test_a_use_that_could_not_be_written_is_written_later(
    database: Database, system_database: Database, administration: TenantAdministration, name: str
) -> None:
    row, _ = await made(system_database, administration, name)
    uses = KeyUses(Database("postgresql://nobody@127.0.0.1:1/none"))
    uses.saw(row.id)
    with pytest.raises(DBAPIError):
        await uses.record()
    uses._database = database
    await uses.record()
    assert await last_used(system_database, row) is not None
