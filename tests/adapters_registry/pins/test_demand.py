"""What is wanted near follows pins and recent calls, and reaches workers with their leases."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec

from loraplex.adapters_registry.pins.demand import TENANT_LIMIT, want_adapters
from loraplex.adapters_registry.pins.service import Pins
from loraplex.engine.protocol.adapter import AdapterSpec
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.workers import WantedAdapters
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.pools.service import WorkerRegistry
from loraplex.platform.pools.wanted import wanted_for
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.conftest import MakeTenant
from tests.adapters_registry.pins.made import add_ready
from tests.platform.pools.registrations import a_registration


async def call(
    database: Database, tenant: TenantPrincipal, spec: AdapterSpec, *, times: int, hours_ago: float
) -> None:
    async with database.unit_of_work() as session:
        for _ in range(times):
            session.add(
                LedgerEntry(
                    tenant_id=tenant.tenant_id,
                    request_id=uuid4().hex,
                    api_key_id=tenant.key_id,
                    model="any",
                    adapter_digest=spec.digest,
                    prompt_tokens=1,
                    cached_tokens=0,
                    output_tokens=1,
                    outcome="completed",
                    admitted_at=datetime.now(UTC) - timedelta(hours=hours_ago),
                )
            )


async def told(database: Database, base: ModuleTable, known: str | None) -> WantedAdapters | None:
    """What a worker of this base hears with its lease."""
    registration = msgspec.structs.replace(a_registration(), base_name=base.base_name)
    async with database.unit_of_work() as session:
        await want_adapters(session, lambda key: f"signed:{key}")
        await WorkerRegistry(session).register(registration)
        await session.flush()
        return await wanted_for(session, registration.worker_id, known)


async def test_recent_and_frequent_calls_come_first_and_old_ones_fade(
    system_database: Database, make_tenant: MakeTenant, base: ModuleTable
) -> None:
    one, other = await make_tenant(), await make_tenant()
    often = await add_ready(system_database, one, base, "often")
    lately = await add_ready(system_database, other, base, "lately")
    long_ago = await add_ready(system_database, one, base, "long-ago")
    await add_ready(system_database, one, base, "never")
    await call(system_database, one, often, times=20, hours_ago=2)  # 5 by now
    await call(system_database, other, lately, times=3, hours_ago=0)
    await call(system_database, one, long_ago, times=50, hours_ago=11)
    wanted = await told(system_database, base, None)
    assert wanted is not None
    assert [ref.spec for ref in wanted.expected] == [often, lately]
    assert wanted.pinned == []
    ref = wanted.expected[0]
    weights = often.weights_digest.removeprefix("sha256:")
    assert ref.namespace == one.namespace
    assert ref.url == f"signed:tenants/{one.namespace}/blobs/{weights}"
    assert await told(system_database, base, wanted.revision) is None


async def test_a_pin_is_told_and_taken_back(
    system_database: Database, database: Database, tenant: TenantPrincipal, base: ModuleTable
) -> None:
    spec = await add_ready(system_database, tenant, base, "kept")
    async with database.unit_of_work(tenant.tenant_id) as session:
        await Pins().put(session, tenant, "kept")
    wanted = await told(system_database, base, None)
    assert wanted is not None
    assert [ref.spec for ref in wanted.pinned] == [spec]
    async with database.unit_of_work(tenant.tenant_id) as session:
        await Pins().remove(session, tenant, "kept")
    wanted = await told(system_database, base, wanted.revision)
    assert wanted is not None
    assert wanted.pinned == []


async def test_one_busy_tenant_leaves_places_to_others(
    system_database: Database, make_tenant: MakeTenant, base: ModuleTable
) -> None:
    busy, quiet = await make_tenant(), await make_tenant()
    for number in range(TENANT_LIMIT + 3):
        spec = await add_ready(system_database, busy, base, f"a-{number}")
        await call(system_database, busy, spec, times=3, hours_ago=0)
    theirs = await add_ready(system_database, quiet, base, "one")
    await call(system_database, quiet, theirs, times=1, hours_ago=0)
    wanted = await told(system_database, base, None)
    assert wanted is not None
    assert len(wanted.expected) == TENANT_LIMIT + 1
    assert wanted.expected[-1].spec == theirs
