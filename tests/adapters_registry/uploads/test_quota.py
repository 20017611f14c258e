from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import update

from loraplex.adapters_registry.errors import OtherBase
from loraplex.adapters_registry.uploads import quota
from loraplex.adapters_registry.uploads.errors import StorageQuotaExceeded
from loraplex.adapters_registry.uploads.models import StorageReservation
from loraplex.adapters_registry.uploads.quota import StorageUsage
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.platform.admission.models import Limits
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.conftest import MakeTenant
from tests.adapters_registry.samples import sample


async def usage_of(database: Database, tenant: TenantPrincipal) -> StorageUsage:
    async with database.unit_of_work(tenant.tenant_id) as session:
        return await quota.usage(session, tenant.tenant_id)


async def limit(system: Database, tenant: TenantPrincipal, max_storage_bytes: int) -> None:
    async with system.unit_of_work() as session:
        mine = update(Limits).where(Limits.tenant_id == tenant.tenant_id)
        await session.execute(mine.values(max_storage_bytes=max_storage_bytes))


async def test_a_reservation_counts_until_it_is_released(
    database: Database, system_database: Database, tenant: TenantPrincipal
) -> None:
    await limit(system_database, tenant, 100)
    one, other = uuid4(), uuid4()
    async with database.unit_of_work(tenant.tenant_id) as session:
        await quota.reserve(session, tenant.tenant_id, one, 60)
        await quota.reserve(session, tenant.tenant_id, one, 70)
    with pytest.raises(StorageQuotaExceeded, match=r"31 bytes .* 70 of the 100") as refused:
        async with database.unit_of_work(tenant.tenant_id) as session:
            await quota.reserve(session, tenant.tenant_id, other, 31)
    assert refused.value.value == 31
    assert await usage_of(database, tenant) == StorageUsage(0, 70, 100)
    async with database.unit_of_work(tenant.tenant_id) as session:
        await quota.release(session, tenant.tenant_id, one)
        await quota.release(session, tenant.tenant_id, one)
        await quota.reserve(session, tenant.tenant_id, other, 100)
    assert await usage_of(database, tenant) == StorageUsage(0, 100, 100)


async def test_a_reservation_may_shrink_below_a_limit_that_was_lowered(
    database: Database, system_database: Database, tenant: TenantPrincipal
) -> None:
    reservation = uuid4()
    async with database.unit_of_work(tenant.tenant_id) as session:
        await quota.reserve(session, tenant.tenant_id, reservation, 50)
    await limit(system_database, tenant, 10)
    async with database.unit_of_work(tenant.tenant_id) as session:
        await quota.reserve(session, tenant.tenant_id, reservation, 40)
    assert await usage_of(database, tenant) == StorageUsage(0, 40, 10)


async def test_what_a_dead_process_reserved_comes_back(
    database: Database, system_database: Database, tenant: TenantPrincipal
) -> None:
    leased, kept = uuid4(), uuid4()
    async with database.unit_of_work(tenant.tenant_id) as session:
        await quota.reserve(session, tenant.tenant_id, leased, 5)
        await quota.reserve(session, tenant.tenant_id, kept, 7, lease=None)
    async with system_database.unit_of_work() as session:
        await session.execute(
            update(StorageReservation)
            .where(StorageReservation.id == leased)
            .values(expires_at=StorageReservation.created_at - timedelta(seconds=1))
        )
        assert await quota.sweep_reservations(session) >= 1
    assert (await usage_of(database, tenant)).reserved_bytes == 7


async def test_bytes_are_counted_once_for_each_tenant(
    uploads: Uploads, database: Database, make_tenant: MakeTenant, tmp_path: Path
) -> None:
    config, weights = sample().write(tmp_path)
    both = len(config) + weights.stat().st_size
    one, other = await make_tenant(), await make_tenant()
    for name in ("a", "a", "b"):
        await uploads.submit(one, name, config, weights)
    assert (await usage_of(database, one))[:2] == (both, 0)
    assert (await usage_of(database, other))[:2] == (0, 0)
    await uploads.submit(other, "a", config, weights)
    assert (await usage_of(database, other))[:2] == (both, 0)


async def test_an_upload_that_does_not_fit_leaves_nothing(
    uploads: Uploads,
    database: Database,
    system_database: Database,
    tenant: TenantPrincipal,
    tmp_path: Path,
) -> None:
    config, weights = sample().write(tmp_path)
    both = len(config) + weights.stat().st_size
    await limit(system_database, tenant, both - 1)
    with pytest.raises(StorageQuotaExceeded):
        await uploads.submit(tenant, "a", config, weights)
    assert (await usage_of(database, tenant))[:2] == (0, 0)
    await limit(system_database, tenant, both)
    await uploads.submit(tenant, "a", config, weights)
    assert (await usage_of(database, tenant))[:2] == (both, 0)


async def test_what_fails_to_register_gives_its_bytes_back(
    uploads: Uploads, database: Database, tenant: TenantPrincipal, tmp_path: Path
) -> None:
    async def refuse(*_: object) -> None:
        raise OtherBase("a", "b")

    with pytest.raises(OtherBase):
        await uploads.submit(tenant, "a", *sample().write(tmp_path), settle=refuse)
    assert (await usage_of(database, tenant))[:2] == (0, 0)
