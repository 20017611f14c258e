import asyncio
from pathlib import Path

import pytest
from sqlalchemy import select

from loraplex.adapters_registry import tasks as all_tasks
from loraplex.adapters_registry.uploads.lifecycle import COMPLETE_UPLOAD
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.versions import tasks
from loraplex.adapters_registry.versions.lifecycle import VALIDATE_VERSION
from loraplex.adapters_registry.versions.models import AdapterVersion, VersionStatus
from loraplex.platform.database.sessions import Database
from loraplex.platform.jobs import JobContext, make_celery
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.samples import sample


def test_the_tasks_others_name_are_registered(services: Settings) -> None:
    app = make_celery(services)
    scheduled = {entry["task"] for entry in all_tasks.BEAT_SCHEDULE.values()}
    assert {VALIDATE_VERSION, COMPLETE_UPLOAD, *scheduled} <= set(app.tasks)


@pytest.fixture
async def version_id(
    uploads: Uploads, system_database: Database, tenant: TenantPrincipal, tmp_path: Path
) -> str:
    await uploads.submit(tenant, "support", *sample().write(tmp_path))
    async with system_database.unit_of_work() as session:
        mine = AdapterVersion.tenant_id == tenant.tenant_id
        return str((await session.scalars(select(AdapterVersion.id).where(mine))).one())


async def test_the_task_brings_an_upload_to_ready(
    services: Settings, system_database: Database, tenant: TenantPrincipal, version_id: str
) -> None:
    context = JobContext(services, system_database, asyncio.Runner())
    for _ in range(2):  # delivery is at least once
        await tasks.validate_version(
            context, tenant_id=str(tenant.tenant_id), version_id=version_id
        )
    await tasks.sweep_versions(context)
    async with system_database.unit_of_work() as session:
        row = await session.get_one(AdapterVersion, version_id)
        assert (row.status, row.attempts) == (VersionStatus.READY, 1)
