"""An import's end is an event for the tenant's webhooks, whichever end it is."""

from typing import Any

import pytest
from sqlalchemy import select

from loraplex.adapters_registry.imports.service import Imports
from loraplex.adapters_registry.imports.views import ImportView
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.principals import TenantPrincipal
from loraplex.platform.webhooks.models import WebhookEvent
from tests.adapters_registry.imports.asking import source_at
from tests.adapters_registry.imports.conftest import MakeRunner, folder_of
from tests.web_server import serving

pytestmark = pytest.mark.usefixtures("base")


async def events(system: Database, view: ImportView) -> list[tuple[str, dict[str, Any]]]:
    mine = WebhookEvent.data["import_id"].astext == str(view.id)
    async with system.unit_of_work() as session:
        return [
            (row.type, row.data) for row in await session.scalars(select(WebhookEvent).where(mine))
        ]


async def test_a_completed_import_tells_its_version(
    imports: Imports,
    make_runner: MakeRunner,
    system_database: Database,
    tenant: TenantPrincipal,
    files: dict[str, bytes],
) -> None:
    async with serving(folder_of(files)) as web:
        view = await imports.start(tenant, "support", source_at(web.port))
        for _ in range(2):  # delivery is at least once
            await make_runner().run(tenant.tenant_id, view.id)
    assert await events(system_database, view) == [
        (
            "import.completed",
            {"import_id": str(view.id), "adapter": "support", "version": 1},
        )
    ]


async def test_a_failed_import_tells_why(
    imports: Imports, make_runner: MakeRunner, system_database: Database, tenant: TenantPrincipal
) -> None:
    async with serving(folder_of({})) as web:
        view = await imports.start(tenant, "support", source_at(web.port))
        await make_runner().run(tenant.tenant_id, view.id)
    ((kind, data),) = await events(system_database, view)
    assert kind == "import.failed"
    assert data["error"] == "import_source_not_found"
