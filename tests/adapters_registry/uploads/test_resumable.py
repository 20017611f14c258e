"""Uploads in parts, from opening to version, with the job run as Celery would run it."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select, update

from loraplex.adapters_registry.errors import InvalidAdapterName, StoreUnavailable
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads.errors import (
    EmptyUpload,
    StorageQuotaExceeded,
    TooManyOpenUploads,
    UnknownPart,
    UnknownUploadFile,
    UploadEnded,
    UploadIncomplete,
    UploadLost,
    UploadNotFound,
    UploadTooLarge,
    WrongUploadFiles,
)
from loraplex.adapters_registry.uploads.files import CONFIG_NAME, WEIGHTS_NAME, FileDraft
from loraplex.adapters_registry.uploads.lifecycle import COMPLETE_UPLOAD
from loraplex.adapters_registry.uploads.models import Upload, UploadStatus
from loraplex.adapters_registry.uploads.staging import Staging, staging_key
from loraplex.adapters_registry.uploads.tasks import sweep_uploads
from loraplex.adapters_registry.versions.models import AdapterVersion
from loraplex.engine.protocol.identity import digest_of_bytes
from loraplex.platform.admission.models import Limits
from loraplex.platform.blobs import blob_key
from loraplex.platform.database.outbox import OutboxMessage
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.jobs import JobContext
from loraplex.platform.settings import Settings
from tests.adapters_registry.uploads.conftest import Client

pytestmark = pytest.mark.usefixtures("base")


async def test_parts_in_any_order_become_a_version(client: Client, store: ObjectStore) -> None:
    files = client.sample(weights_bytes=11_000_000)
    view = await client.create(files)
    assert (view.status, view.version) == (UploadStatus.PENDING, None)
    assert [(file.name, file.part_bytes) for file in view.files] == [
        (CONFIG_NAME, 5 * 1024**2),
        (WEIGHTS_NAME, 5 * 1024**2),
    ]
    for number in (3, 1, 2, 1):  # a part may come again
        await client.put(view.id, WEIGHTS_NAME, number)
    await client.put(view.id, CONFIG_NAME, 1)
    assert [file.parts_received for file in (await client.get(view.id)).files] == [(1,), (1, 2, 3)]
    view = await client.complete(view.id)
    assert view.status is UploadStatus.COMPLETING
    assert await client.run_job(view.id)
    view = await client.get(view.id)
    assert (view.status, view.version, view.error) == (UploadStatus.COMPLETED, 1, None)
    for data in files.values():
        key = blob_key(client.tenant.namespace, digest_of_bytes(data))
        assert store.read(key) == data
    assert await client.usage() == (sum(map(len, files.values())), 0)
    assert client.staged(view.id) == []


async def test_completing_twice_is_completing_once(
    client: Client, system_database: Database
) -> None:
    view = await client.filled()
    for _ in range(2):
        assert (await client.complete(view.id)).status is UploadStatus.COMPLETING
    assert await client.run_job(view.id)
    assert not await client.run_job(view.id)
    assert (await client.complete(view.id)).status is UploadStatus.COMPLETED
    async with system_database.unit_of_work() as session:
        mine = AdapterVersion.tenant_id == client.tenant.tenant_id
        assert len((await session.scalars(select(AdapterVersion).where(mine))).all()) == 1
        asked = OutboxMessage.arguments["upload_id"].astext == str(view.id)
        assert [m.task for m in await session.scalars(select(OutboxMessage).where(asked))] == [
            COMPLETE_UPLOAD
        ]


async def test_parts_go_straight_to_a_store_that_clients_reach(
    client: Client, store: ObjectStore
) -> None:
    staging = Staging(store, public=store)
    reader = replace(client.resumable.reader, staging=staging)
    client.resumable = replace(client.resumable, staging=staging, reader=reader)
    files = client.sample(weights_bytes=6_000_000)
    view = await client.create(files)
    slots = await client.resumable.slots(client.tenant, view.id, WEIGHTS_NAME, [1, 2])
    slots += await client.resumable.slots(client.tenant, view.id, CONFIG_NAME, [1])
    async with httpx.AsyncClient() as http:
        for slot in slots:
            start = (slot.number - 1) * client.resumable.part_bytes
            data = files[slot.file][start : start + slot.size_bytes]
            url = staging.presign_part(slot, 60)
            assert (await http.put(url, content=data + b"x")).status_code == 403
            for _ in range(2):
                assert (await http.put(url, content=data)).status_code == 200
            received = {f.name: f.parts_received for f in (await client.get(view.id)).files}
            assert slot.number in received[slot.file]
    await client.complete(view.id)
    assert await client.run_job(view.id)
    assert (await client.get(view.id)).status is UploadStatus.COMPLETED
    async with httpx.AsyncClient() as http:  # what was read cannot be changed any more
        assert (await http.put(url, content=data)).status_code == 404


async def test_missing_parts_are_named_and_nothing_has_ended(client: Client) -> None:
    view = await client.create(client.sample(weights_bytes=16_000_000))
    await client.put(view.id, CONFIG_NAME, 1)
    await client.put(view.id, WEIGHTS_NAME, 2)
    with pytest.raises(UploadIncomplete, match=r"3 parts of .*: 1, 3, 4"):
        await client.complete(view.id)
    assert (await client.get(view.id)).status is UploadStatus.PENDING


async def test_an_upload_that_the_store_has_lost_ends_and_says_so(
    client: Client, store: ObjectStore
) -> None:
    view = await client.create(client.sample())
    for lost in store.multipart_uploads(f"tenants/{client.tenant.namespace}/staging/{view.id}/"):
        store.abort_multipart_upload(lost)
    with pytest.raises(UploadLost, match="Open another"):
        await client.put(view.id, CONFIG_NAME, 1)
    view = await client.get(view.id)
    assert (view.status, view.error and view.error.code) == (UploadStatus.FAILED, "upload_lost")
    assert await client.usage() == (0, 0)
    with pytest.raises(UploadEnded, match="failed"):
        await client.put(view.id, CONFIG_NAME, 1)


async def test_aborting_releases_the_bytes_at_once_and_for_good(client: Client) -> None:
    view = await client.filled()
    assert (await client.usage())[1] > 0
    for _ in range(2):
        assert (await client.abort(view.id)).status is UploadStatus.ABORTED
    assert await client.usage() == (0, 0)
    assert client.staged(view.id) == []
    with pytest.raises(UploadEnded, match="aborted"):
        await client.put(view.id, WEIGHTS_NAME, 1)
    with pytest.raises(UploadEnded):
        await client.complete(view.id)


async def test_what_completes_cannot_be_aborted(client: Client) -> None:
    view = await client.filled()
    await client.complete(view.id)
    with pytest.raises(UploadEnded, match="completing"):
        await client.abort(view.id)
    await client.run_job(view.id)
    with pytest.raises(UploadEnded, match="completed"):
        await client.abort(view.id)


async def test_an_abandoned_upload_is_swept_and_its_quota_returns(
    client: Client, services: Settings, system_database: Database, job_context: JobContext
) -> None:
    view = await client.filled()
    await client.move_clock(view.id, expires_at=Upload.created_at - timedelta(seconds=1))
    with pytest.raises(UploadEnded, match="expired"):
        await client.put(view.id, WEIGHTS_NAME, 1)
    with pytest.raises(UploadEnded, match="expired"):
        await client.complete(view.id)
    await sweep_uploads(job_context)
    assert (await client.get(view.id)).status is UploadStatus.EXPIRED
    assert await client.usage() == (0, 0)
    assert client.staged(view.id) == []
    assert (await client.row(view.id)).cleared_at is not None


async def test_an_upload_whose_opening_was_cut_short_is_swept_without_its_id(
    client: Client, store: ObjectStore, system_database: Database, job_context: JobContext
) -> None:
    view = await client.create()
    key = staging_key(client.tenant.namespace, view.id, 1)
    Staging(store).begin(key)  # as a gateway that died before it could note the store's id
    assert len(client.staged(view.id)) == 3
    await client.move_clock(view.id, expires_at=Upload.created_at)
    await client.forget_store_ids(view.id)
    await sweep_uploads(job_context)
    assert client.staged(view.id) == []


async def test_a_neighbours_upload_does_not_exist(client: Client, other_client: Client) -> None:
    view = await client.filled()
    resumable, stranger = other_client.resumable, other_client.tenant
    for refused in (
        resumable.reader.get(stranger, view.id),
        resumable.slots(stranger, view.id, WEIGHTS_NAME, [1]),
        resumable.complete(stranger, view.id),
        resumable.abort(stranger, view.id),
        resumable.reader.get(stranger, uuid4()),
    ):
        with pytest.raises(UploadNotFound):
            await refused
    assert (await client.get(view.id)).status is UploadStatus.PENDING


async def test_open_uploads_are_limited_and_so_are_their_bytes(
    client: Client, system_database: Database
) -> None:
    first = await client.create()
    size_bytes = sum(map(len, client.files.values()))
    mine = update(Limits).where(Limits.tenant_id == client.tenant.tenant_id)
    async with system_database.unit_of_work() as session:
        await session.execute(mine.values(max_open_uploads=2, max_storage_bytes=2 * size_bytes))
    await client.create()
    with pytest.raises(StorageQuotaExceeded, match=f"{size_bytes} bytes .*{2 * size_bytes} of"):
        await client.create()
    async with system_database.unit_of_work() as session:
        await session.execute(mine.values(max_storage_bytes=9 * size_bytes))
    with pytest.raises(TooManyOpenUploads, match="2 uploads open"):
        await client.create()
    assert await client.usage() == (0, 2 * size_bytes)
    await client.abort(first.id)
    await client.create()


async def test_without_the_store_nothing_stays_reserved(client: Client, services: Settings) -> None:
    nowhere = services.model_copy(update={"s3_endpoint": f"http://127.0.0.1:{free_port()}"})
    away = replace(client.resumable, staging=Staging(ObjectStore.from_settings(nowhere)))
    with pytest.raises(StoreUnavailable):
        await away.create(client.tenant, "support", client.drafts(client.sample()))
    assert await client.usage() == (0, 0)


CONFIG, WEIGHTS = FileDraft(CONFIG_NAME, 10), FileDraft(WEIGHTS_NAME, 10)


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ([CONFIG], WrongUploadFiles),
        ([CONFIG, CONFIG], WrongUploadFiles),
        ([CONFIG, FileDraft("adapter_model.bin", 10)], WrongUploadFiles),
        ([FileDraft("a.zip", 10), WEIGHTS], WrongUploadFiles),
        ([FileDraft("../a.zip", 10)], WrongUploadFiles),
        ([CONFIG, FileDraft(WEIGHTS_NAME, 0)], EmptyUpload),
        ([CONFIG, FileDraft(WEIGHTS_NAME, 10**9)], UploadTooLarge),
        ([FileDraft(CONFIG_NAME, 10**7), WEIGHTS], UploadTooLarge),
        ([FileDraft("a.tar.gz", 10**9)], UploadTooLarge),
    ],
)
async def test_what_cannot_be_an_adapter_is_refused_before_its_bytes(
    client: Client, files: list[FileDraft], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await client.resumable.create(client.tenant, "support", files)


async def test_names_files_and_parts_that_do_not_exist_are_refused(client: Client) -> None:
    with pytest.raises(InvalidAdapterName):
        await client.resumable.create(client.tenant, "a/b", [CONFIG, WEIGHTS])
    view = await client.create()
    with pytest.raises(UnknownUploadFile, match=CONFIG_NAME):
        await client.resumable.slots(client.tenant, view.id, "other", [1])
    with pytest.raises(UnknownPart, match="parts 1 to 1"):
        await client.resumable.slots(client.tenant, view.id, WEIGHTS_NAME, [2])
