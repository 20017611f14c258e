"""The job that completes an upload: what it makes of the bytes, and what stops it."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads import lifecycle, sweeping
from loraplex.adapters_registry.uploads.errors import (
    UploadNotFound,
)
from loraplex.adapters_registry.uploads.files import CONFIG_NAME, WEIGHTS_NAME
from loraplex.adapters_registry.uploads.lifecycle import MAX_ATTEMPTS
from loraplex.adapters_registry.uploads.models import Upload, UploadStatus
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.uploads.staging import Staging
from loraplex.engine.protocol.identity import digest_of_bytes
from loraplex.platform.admission.models import Limits
from loraplex.platform.blobs import blob_key
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.settings import Settings
from tests.adapters_registry.samples import sample
from tests.adapters_registry.uploads.conftest import Client
from tests.adapters_registry.uploads.test_archives import Make, tarred, zipped

pytestmark = pytest.mark.usefixtures("base")


async def test_an_upload_that_the_store_has_completed_already_is_found_by_its_object(
    client: Client, store: ObjectStore
) -> None:
    view = await client.filled()
    (slot,) = await client.resumable.slots(client.tenant, view.id, WEIGHTS_NAME, [1])
    weights = client.files[WEIGHTS_NAME]
    Staging(store).finish(slot.key, slot.store_upload_id, len(weights))
    await client.complete(view.id)
    assert await client.run_job(view.id)
    assert (await client.get(view.id)).status is UploadStatus.COMPLETED


async def test_identical_content_is_stored_once_and_answered_as_success(
    client: Client, uploads: Uploads, tmp_path: Path
) -> None:
    config, weights = sample().write(tmp_path)
    await uploads.submit(client.tenant, "support", config, weights)
    before = await client.usage()
    view = await client.filled({CONFIG_NAME: config, WEIGHTS_NAME: weights.read_bytes()})
    await client.complete(view.id)
    await client.run_job(view.id)
    view = await client.get(view.id)
    assert (view.status, view.version) == (UploadStatus.COMPLETED, 1)
    assert await client.usage() == before


async def test_other_bytes_than_announced_fail_by_name_and_leave_nothing(client: Client) -> None:
    announced = hashlib.sha256(b"other").hexdigest()
    view = await client.filled(sha256={WEIGHTS_NAME: announced})
    await client.complete(view.id)
    assert await client.run_job(view.id)
    view = await client.get(view.id)
    assert view.status is UploadStatus.FAILED
    assert view.error is not None
    assert (view.error.code, view.error.field) == ("checksum_mismatch", WEIGHTS_NAME)
    assert announced in view.error.message
    assert await client.usage() == (0, 0)
    assert client.staged(view.id) == []
    assert (await client.complete(view.id)).status is UploadStatus.FAILED


@pytest.mark.parametrize("make", [zipped, tarred])
async def test_an_archive_is_opened_and_its_two_files_are_the_version(
    client: Client, store: ObjectStore, make: Make
) -> None:
    files = client.sample(weights_bytes=100_000)
    name = "mine.zip" if make is zipped else "mine.tar.gz"
    archive = make({f"mine/{name}": data for name, data in files.items()})
    view = await client.completed({name: archive}, {name: hashlib.sha256(archive).hexdigest()})
    assert (view.status, view.version) == (UploadStatus.COMPLETED, 1)
    for data in files.values():
        key = blob_key(client.tenant.namespace, digest_of_bytes(data))
        assert store.read(key) == data
    assert await client.usage() == (sum(map(len, files.values())), 0)
    # The same files by themselves are the same version.
    assert (await client.completed(files)).version == 1


async def test_an_archive_that_is_not_accepted_fails_with_its_reason(client: Client) -> None:
    archive = zipped(client.sample() | {"../../etc/passwd": b"root"})
    view = await client.completed({"mine.zip": archive})
    assert view.status is UploadStatus.FAILED
    assert view.error is not None
    assert (view.error.code, view.error.field) == ("archive_refused", "../../etc/passwd")
    assert await client.usage() == (0, 0)
    assert client.staged(view.id) == []


async def test_an_archive_that_unpacks_to_more_than_the_quota_has_left_fails(
    client: Client, system_database: Database
) -> None:
    archive = zipped(client.sample(weights_bytes=1_000_000))
    async with system_database.unit_of_work() as session:
        mine = update(Limits).where(Limits.tenant_id == client.tenant.tenant_id)
        await session.execute(mine.values(max_storage_bytes=len(archive) + 1000))
    view = await client.completed({"mine.zip": archive})
    assert view.error is not None
    assert view.error.code == "storage_quota_exceeded"
    assert await client.usage() == (0, 0)


async def test_what_nobody_completed_is_asked_for_again_and_given_up_in_the_end(
    client: Client, system_database: Database
) -> None:
    view = await client.filled()
    await client.complete(view.id)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        async with system_database.unit_of_work() as session:
            completion = await lifecycle.claim(session, client.tenant.tenant_id, view.id)
            assert completion is not None  # and its job dies here
            assert completion.attempt == attempt
        await client.move_clock(view.id, deadline_at=Upload.created_at)
        async with system_database.unit_of_work() as session:
            assert await sweeping.sweep_completing(session) >= 1
    ended = await client.get(view.id)
    assert ended.status is UploadStatus.FAILED
    assert ended.error is not None
    assert ended.error.code == "upload_not_finished"
    assert await client.usage() == (0, 0)


async def test_a_store_that_is_away_is_tried_again(
    client: Client, services: Settings, system_database: Database
) -> None:
    view = await client.filled()
    await client.complete(view.id)
    nowhere = services.model_copy(update={"s3_endpoint": f"http://127.0.0.1:{free_port()}"})
    away = replace(client.completer, store=ObjectStore.from_settings(nowhere))
    assert await away.complete(client.tenant.tenant_id, view.id)
    row = await client.row(view.id)
    assert (row.status, row.claimed_at) == (UploadStatus.COMPLETING, None)
    assert "object store did not answer" in (row.last_error or "")
    assert await client.run_job(view.id)
    assert (await client.get(view.id)).status is UploadStatus.COMPLETED


async def test_an_attempt_that_was_taken_for_dead_ends_nothing(
    client: Client, system_database: Database
) -> None:
    view = await client.filled()
    await client.complete(view.id)
    async with system_database.unit_of_work() as session:
        slow = await lifecycle.claim(session, client.tenant.tenant_id, view.id)
        assert slow is not None
    await client.move_clock(view.id, deadline_at=Upload.created_at)
    async with system_database.unit_of_work() as session:
        await sweeping.sweep_completing(session)
    assert await client.run_job(view.id)
    async with system_database.unit_of_work() as session:
        assert not await lifecycle.renew(session, slow)
        assert not await lifecycle.put_back(session, slow, "late")
        assert not await lifecycle.fail(session, slow, UploadNotFound(view.id))
        with pytest.raises(lifecycle.Superseded):
            await lifecycle.resize(session, slow, 5)
        with pytest.raises(lifecycle.Superseded):
            await lifecycle.finish(session, slow, 7)
    view = await client.get(view.id)
    assert (view.status, view.version) == (UploadStatus.COMPLETED, 1)
    assert (await client.usage())[1] == 0


async def test_two_tenants_identical_bytes_share_nothing(
    client: Client, other_client: Client, store: ObjectStore
) -> None:
    files = client.sample()
    for one in (client, other_client):
        view = await one.filled(files)
        assert (await one.complete(view.id)).status is UploadStatus.COMPLETING
        await one.run_job(view.id)
        assert (await one.get(view.id)).version == 1
        assert await one.usage() == (sum(map(len, files.values())), 0)
    keys = {
        blob_key(one.tenant.namespace, digest_of_bytes(files[WEIGHTS_NAME]))
        for one in (client, other_client)
    }
    assert len(keys) == 2
    assert all(store.exists(key) for key in keys)
