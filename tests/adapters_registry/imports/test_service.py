"""What a gateway takes, shows and may read of imports."""

import pytest
from sqlalchemy import text

from loraplex.adapters_registry.imports.errors import ImportNotFound, TooManyImports
from loraplex.adapters_registry.imports.service import Imports
from loraplex.adapters_registry.imports.sources import HttpsSource
from loraplex.adapters_registry.uploads.errors import StorageQuotaExceeded
from loraplex.platform.database.pages import PageRequest
from loraplex.platform.database.sessions import Database
from loraplex.platform.outbound.errors import AddressNotPublic
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.conftest import MakeTenant
from tests.adapters_registry.imports.asking import CLOSED_PORT, limit, source_at


async def test_an_import_that_cannot_be_is_refused_before_it_is_queued(
    imports: Imports, tenant: TenantPrincipal, system_database: Database
) -> None:
    private = HttpsSource("https://169.254.169.254/c", "https://169.254.169.254/w")
    with pytest.raises(AddressNotPublic):
        await imports.start(tenant, "support", private)
    await limit(system_database, tenant, max_storage_bytes=1)
    with pytest.raises(StorageQuotaExceeded):
        await imports.start(tenant, "support", source_at(CLOSED_PORT))
    await limit(system_database, tenant, max_storage_bytes=10**9, max_open_uploads=1)
    await imports.start(tenant, "support", source_at(CLOSED_PORT))
    with pytest.raises(TooManyImports):
        await imports.start(tenant, "support", source_at(CLOSED_PORT))


async def test_a_tenant_sees_its_own_imports_newest_first(
    imports: Imports, database: Database, make_tenant: MakeTenant
) -> None:
    tenant, other = await make_tenant(), await make_tenant()
    started = [
        await imports.start(tenant, name, source_at(CLOSED_PORT)) for name in ("a", "b", "c")
    ]
    await imports.start(other, "theirs", source_at(CLOSED_PORT))
    async with database.unit_of_work(tenant.tenant_id) as session:
        first = await imports.page(session, tenant, PageRequest(limit=2))
        second = await imports.page(session, tenant, PageRequest(2, first.next_cursor))
    assert [view.adapter for view in first.items + second.items] == ["c", "b", "a"]
    async with database.unit_of_work(other.tenant_id) as session:
        with pytest.raises(ImportNotFound):
            await imports.get(session, other, started[0].id)


async def test_a_gateway_cannot_read_what_it_sealed(
    imports: Imports, database: Database, tenant: TenantPrincipal
) -> None:
    view = await imports.start(tenant, "support", source_at(CLOSED_PORT))
    async with database.unit_of_work(tenant.tenant_id) as session:
        assert (await imports.get(session, tenant, view.id)).id == view.id
        with pytest.raises(Exception, match="permission denied"):
            await session.execute(text("SELECT sealed_source FROM imports"))
