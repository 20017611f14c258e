"""The demo's seed on the real services: complete, private, and the same at every start."""

import asyncio
import dataclasses
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import select

from loraplex.adapters_registry.demo import DEMO_TENANTS, Demo, adapters_dir
from loraplex.adapters_registry.versions.checking import VersionChecker
from loraplex.adapters_registry.versions.models import AdapterVersion, VersionStatus
from loraplex.adapters_registry.versions.service import Catalogue
from loraplex.platform.database.sessions import Database
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.principals import OperatorPrincipal, TenantPrincipal


@pytest.fixture
def settings(services: Settings, smollm2_dir: Path, tmp_path: Path) -> Settings:
    return services.model_copy(
        update={"data_dir": tmp_path, "model": str(smollm2_dir), "port": 8123}
    )


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Demo]:
    demo = Demo.open(settings)
    yield demo
    await demo.close()


async def seed(settings: Settings) -> dict[str, Any]:
    """Seed, and read what was written."""
    async with opened(settings) as demo:
        await demo.seed()
    credentials: dict[str, Any] = json.loads((settings.data_dir / "credentials.json").read_text())
    return credentials


@asynccontextmanager
async def jobs(system: Database, checker: VersionChecker) -> AsyncIterator[None]:
    """Validates whatever is uploaded meanwhile, as the background jobs would."""

    async def validate() -> None:
        waiting = select(AdapterVersion.tenant_id, AdapterVersion.id).where(
            AdapterVersion.status == VersionStatus.UPLOADED
        )
        while True:
            async with system.unit_of_work() as session:
                rows = (await session.execute(waiting)).all()
            for tenant_id, version_id in rows:
                await checker.check(TenantId(tenant_id), version_id)
            await asyncio.sleep(0.05)

    task = asyncio.create_task(validate())
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_the_demo_is_complete_and_the_same_at_every_start(
    settings: Settings, system_database: Database, database: Database, checker: VersionChecker
) -> None:
    async with jobs(system_database, checker):
        first = await seed(settings)
    file = settings.data_dir / "credentials.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert first["base_url"] == "http://127.0.0.1:8123"
    assert {name: tenant["adapters"] for name, tenant in first["tenants"].items()} == {
        name: list(adapters) for name, adapters in DEMO_TENANTS.items()
    }
    async with opened(settings) as found:
        assert isinstance(await found.whose(first["admin"]["api_key"]), OperatorPrincipal)
        principals = {
            name: await found.whose(tenant["api_key"]) for name, tenant in first["tenants"].items()
        }
    for name, principal in principals.items():
        assert isinstance(principal, TenantPrincipal)
        assert principal.tenant_name == name
        async with database.unit_of_work(principal.tenant_id) as session:
            adapters = await Catalogue().list_adapters(session, principal)
        latest = {adapter.name: adapter.latest_version for adapter in adapters.items}
        for adapter_name in DEMO_TENANTS[name]:
            version = latest[adapter_name]
            assert version is not None
            assert (version.version, version.status) == (1, VersionStatus.READY)

    assert await seed(settings) == first


async def test_without_the_demo_there_is_an_admin_key_alone(settings: Settings) -> None:
    settings = settings.model_copy(update={"demo": False})
    credentials = await seed(settings)
    assert credentials["tenants"] == {}
    assert credentials["admin"]["api_key"].startswith("lpxadmin_")


async def test_on_another_base_the_tenants_begin_with_no_adapters(settings: Settings) -> None:
    async with opened(settings) as demo:
        other = msgspec.structs.replace(demo.table, base_name=f"other-{uuid4().hex}")
        await dataclasses.replace(demo, table=other).seed()
    credentials = json.loads((settings.data_dir / "credentials.json").read_text())
    assert {name: found["adapters"] for name, found in credentials["tenants"].items()} == {
        name: [] for name in DEMO_TENANTS
    }


async def test_keys_that_are_lost_are_replaced_and_revoked(settings: Settings) -> None:
    settings = settings.model_copy(update={"demo": False})
    lost = await seed(settings)
    (settings.data_dir / "credentials.json").write_text("{cut off")
    found = await seed(settings)
    async with opened(settings) as demo:
        assert await demo.whose(lost["admin"]["api_key"]) is None
        assert await demo.whose(found["admin"]["api_key"]) is not None


async def test_turning_the_demo_off_ends_its_keys(
    settings: Settings, system_database: Database, checker: VersionChecker
) -> None:
    async with jobs(system_database, checker):
        on = await seed(settings)
    await seed(settings.model_copy(update={"demo": False}))
    async with opened(settings) as demo:
        for tenant in on["tenants"].values():
            assert await demo.whose(tenant["api_key"]) is None


def test_every_demo_adapter_is_at_hand() -> None:
    for adapters in DEMO_TENANTS.values():
        for name in adapters:
            assert (adapters_dir() / name / "adapter_model.safetensors").is_file()
