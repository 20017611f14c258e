from uuid import uuid4

import pytest

from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId


async def new_tenant(system: Database, settings: Settings) -> TenantId:
    administration = TenantAdministration(SecretKeys.from_settings(settings))
    async with system.unit_of_work() as session:
        return TenantId((await administration.create_tenant(session, f"t-{uuid4().hex}")).id)


@pytest.fixture
async def tenant_id(system_database: Database, services: Settings) -> TenantId:
    return await new_tenant(system_database, services)


@pytest.fixture
async def neighbour_id(system_database: Database, services: Settings) -> TenantId:
    return await new_tenant(system_database, services)
