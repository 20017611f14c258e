"""With uploads off nothing comes in by any way, and what was on its way waits."""

from pathlib import Path

import pytest
from sqlalchemy import select

from loraplex.adapters_registry.uploads.files import CONFIG_NAME
from loraplex.adapters_registry.uploads.models import UploadStatus
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.uploads.sweeping import sweep_completing
from loraplex.adapters_registry.versions.checking import VersionChecker
from loraplex.adapters_registry.versions.models import AdapterVersion, VersionStatus
from loraplex.platform.database.sessions import Database
from loraplex.platform.switches.errors import UploadsOff
from loraplex.platform.switches.names import NO_UPLOADS
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.samples import sample
from tests.adapters_registry.uploads.conftest import Client
from tests.switched import switched_on


async def test_a_form_and_a_new_upload_are_refused_before_a_byte_is_reserved(
    client: Client, uploads: Uploads, system_database: Database, tmp_path: Path
) -> None:
    config, weights = sample().write(tmp_path)
    async with switched_on(system_database, NO_UPLOADS):
        with pytest.raises(UploadsOff):
            await uploads.submit(client.tenant, "parrot", config, weights)
        with pytest.raises(UploadsOff):
            await client.create(client.sample())
    assert await client.usage() == (0, 0)


async def test_an_open_upload_takes_no_parts_and_is_not_completed_but_can_be_aborted(
    client: Client, system_database: Database
) -> None:
    view = await client.create(client.sample())
    async with switched_on(system_database, NO_UPLOADS):
        with pytest.raises(UploadsOff):
            await client.put(view.id, CONFIG_NAME, 1)
    view = await client.filled()
    async with switched_on(system_database, NO_UPLOADS):
        with pytest.raises(UploadsOff):
            await client.complete(view.id)
        assert (await client.abort(view.id)).status is UploadStatus.ABORTED


async def test_a_completion_that_was_asked_for_before_waits_without_using_up_an_attempt(
    client: Client, system_database: Database
) -> None:
    view = await client.filled()
    await client.complete(view.id)
    async with switched_on(system_database, NO_UPLOADS):
        assert not await client.run_job(view.id)
        async with system_database.unit_of_work() as session:
            await sweep_completing(session)
        assert (await client.get(view.id)).status is UploadStatus.COMPLETING
    assert await client.run_job(view.id)
    done = await client.get(view.id)
    assert (done.status, done.version) == (UploadStatus.COMPLETED, 1)


async def test_a_version_that_came_in_before_is_not_checked_until_uploads_are_on(
    tenant: TenantPrincipal,
    uploads: Uploads,
    checker: VersionChecker,
    system_database: Database,
    tmp_path: Path,
) -> None:
    config, weights = sample().write(tmp_path)
    await uploads.submit(tenant, "parrot", config, weights)
    mine = select(AdapterVersion).where(AdapterVersion.tenant_id == tenant.tenant_id)
    async with system_database.unit_of_work() as session:
        version = (await session.scalars(mine)).one()
    async with switched_on(system_database, NO_UPLOADS):
        assert not await checker.check(tenant.tenant_id, version.id)
    assert await checker.check(tenant.tenant_id, version.id)
    async with system_database.unit_of_work() as session:
        version = (await session.scalars(mine)).one()
        assert (version.status, version.attempts) == (VersionStatus.READY, 1)
