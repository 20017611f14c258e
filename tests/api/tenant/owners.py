"""A tenant with versions that are ready, checked as the jobs check them."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import select

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.validation import ValidationLimits
from loraplex.adapters_registry.versions.checking import VersionChecker
from loraplex.adapters_registry.versions.models import AdapterVersion
from loraplex.platform.database.sessions import Database
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant as TenantRow

FIXTURES = Path(__file__).parents[2] / "fixtures" / "adapters"


def files(adapter: str) -> dict[str, Any]:
    folder = FIXTURES / adapter
    return {
        "adapter_config": ("adapter_config.json", (folder / "adapter_config.json").read_bytes()),
        "adapter_model": (
            "adapter_model.safetensors",
            (folder / "adapter_model.safetensors").read_bytes(),
        ),
    }


@dataclass(frozen=True)
class Owner:
    """A tenant, by name, and a client with its key."""

    name: str
    client: httpx.Client

    def upload(self, settings: Settings, adapter: str, *samples: str) -> None:
        """Upload each sample as the adapter's next version and have it validated."""
        for sample in samples:
            path = f"/api/v1/adapters/{adapter}/versions"
            self.client.post(path, files=files(sample)).raise_for_status()
        asyncio.run(check_uploads(settings, self.name))

    def point(
        self, alias: str, version: int, if_match: str | None = None, adapter: str = "support"
    ) -> httpx.Response:
        headers = {} if if_match is None else {"If-Match": if_match}
        path = f"/api/v1/adapters/{adapter}/aliases/{alias}"
        return self.client.put(path, json={"version": version}, headers=headers)


async def check_uploads(settings: Settings, tenant_name: str) -> None:
    assert settings.database_system_url is not None
    database = Database(settings.database_system_url.get_secret_value(), pool_size=1)
    checker = VersionChecker(
        database,
        ObjectStore.from_settings(settings),
        ValidationLimits(),
        settings.data_dir / "checks",
    )
    try:
        async with database.unit_of_work() as session:
            statement = (
                select(AdapterVersion.tenant_id, AdapterVersion.id)
                .join(TenantRow, TenantRow.id == AdapterVersion.tenant_id)
                .where(TenantRow.name == tenant_name, AdapterVersion.status == "uploaded")
            )
            waiting = (await session.execute(statement)).all()
        for tenant_id, version_id in waiting:
            await checker.check(TenantId(tenant_id), version_id)
    finally:
        await database.dispose()
