"""Pins stay within the tenant's quota, and nobody sees another's."""

import asyncio

import pytest
from sqlalchemy import update

from loraplex.adapters_registry.errors import AdapterNotFound
from loraplex.adapters_registry.pins.errors import PinNotFound, TooManyPins
from loraplex.adapters_registry.pins.service import Pins
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.admission.models import Limits
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.conftest import MakeTenant
from tests.adapters_registry.pins.made import add_ready

PINS = Pins()


@pytest.fixture
async def two_pins(system_database: Database, tenant: TenantPrincipal, base: ModuleTable) -> None:
    """A tenant that may pin two of its three adapters."""
    for name in "abc":
        await add_ready(system_database, tenant, base, name)
    async with system_database.unit_of_work() as session:
        mine = Limits.tenant_id == tenant.tenant_id
        await session.execute(update(Limits).where(mine).values(max_pinned_adapters=2))


async def pin(database: Database, tenant: TenantPrincipal, name: str) -> bool:
    try:
        async with database.unit_of_work(tenant.tenant_id) as session:
            await PINS.put(session, tenant, name)
    except TooManyPins:
        return False
    return True


@pytest.mark.usefixtures("two_pins")
async def test_pins_count_against_the_quota_and_pinning_twice_is_once(
    database: Database, tenant: TenantPrincipal
) -> None:
    assert [await pin(database, tenant, name) for name in "aabcb"] == [
        True,
        True,
        True,
        False,
        True,
    ]
    async with database.unit_of_work(tenant.tenant_id) as session:
        await PINS.remove(session, tenant, "a")
        await PINS.remove(session, tenant, "a")
    assert await pin(database, tenant, "c")
    async with database.unit_of_work(tenant.tenant_id) as session:
        with pytest.raises(PinNotFound):
            await PINS.get(session, tenant, "a")


@pytest.mark.usefixtures("two_pins")
async def test_pins_at_once_do_not_pass_the_quota_together(
    database: Database, tenant: TenantPrincipal
) -> None:
    taken = await asyncio.gather(*(pin(database, tenant, name) for name in "abc"))
    assert sorted(taken) == [False, True, True]


async def test_a_neighbours_adapter_is_not_there(
    database: Database,
    system_database: Database,
    tenant: TenantPrincipal,
    make_tenant: MakeTenant,
    base: ModuleTable,
) -> None:
    await add_ready(system_database, await make_tenant(), base, "theirs")
    async with database.unit_of_work(tenant.tenant_id) as session:
        for refused in (PINS.get, PINS.put, PINS.remove):
            with pytest.raises(AdapterNotFound):
                await refused(session, tenant, "theirs")
