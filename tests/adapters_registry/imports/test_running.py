"""Imports from start to version, with a source, a store and a database that are real."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import func, select

from loraplex.adapters_registry.imports import lifecycle
from loraplex.adapters_registry.imports.models import AdapterImport, ImportStatus
from loraplex.adapters_registry.imports.service import Imports
from loraplex.adapters_registry.imports.sources import CONFIG_FILE, WEIGHTS_FILE
from loraplex.adapters_registry.versions.models import VersionStatus
from loraplex.platform.database.sessions import Database
from loraplex.platform.switches.errors import UploadsOff
from loraplex.platform.switches.names import NO_UPLOADS
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.imports.asking import (
    SECRET,
    limit,
    pass_time,
    row_of,
    sealed,
    source_at,
    used_bytes,
    versions,
)
from tests.adapters_registry.imports.conftest import MakeRunner, folder_of
from tests.switched import switched_on
from tests.web_server import Asked, Respond, serving


async def test_an_import_becomes_a_version_and_its_credentials_are_wiped(
    imports: Imports,
    make_runner: MakeRunner,
    system_database: Database,
    tenant: TenantPrincipal,
    files: dict[str, bytes],
    tmp_path: Path,
) -> None:
    async with serving(folder_of(files)) as web:
        view = await imports.start(tenant, "support", source_at(web.port))
        assert (view.status, view.version) == (ImportStatus.QUEUED, None)
        stored = await sealed(system_database, view)
        assert stored is not None and SECRET.encode() not in stored
        assert SECRET not in str(view.source)
        assert (await used_bytes(system_database, tenant)).reserved_bytes > 0
        for _ in range(2):  # delivery is at least once
            await make_runner().run(tenant.tenant_id, view.id)
    row = await row_of(system_database, view)
    size_bytes = sum(len(data) for data in files.values())
    assert (row.status, row.version, row.attempts) == (ImportStatus.COMPLETED, 1, 1)
    assert (row.fetched_bytes, row.last_error, row.error) == (size_bytes, None, None)
    assert row.ended_at is not None
    assert await sealed(system_database, view) is None
    (version,) = await versions(system_database, tenant)
    assert (version.number, version.status) == (1, VersionStatus.UPLOADED)
    assert await used_bytes(system_database, tenant) == (
        size_bytes,
        0,
        (await used_bytes(system_database, tenant)).limit_bytes,
    )
    assert not list((tmp_path / "scratch").iterdir())


async def test_the_same_bytes_again_are_the_version_that_exists(
    imports: Imports,
    make_runner: MakeRunner,
    system_database: Database,
    tenant: TenantPrincipal,
    files: dict[str, bytes],
) -> None:
    async with serving(folder_of(files)) as web:
        for _ in range(2):
            view = await imports.start(tenant, "support", source_at(web.port))
            await make_runner().run(tenant.tenant_id, view.id)
            assert (await row_of(system_database, view)).version == 1
    assert len(await versions(system_database, tenant)) == 1


async def test_what_the_source_refuses_fails_the_import_at_once_and_frees_the_quota(
    imports: Imports, make_runner: MakeRunner, system_database: Database, tenant: TenantPrincipal
) -> None:
    async with serving(folder_of({})) as web:
        view = await imports.start(tenant, "support", source_at(web.port))
        await make_runner().run(tenant.tenant_id, view.id)
    row = await row_of(system_database, view)
    assert (row.status, row.attempts) == (ImportStatus.FAILED, 1)
    assert row.error is not None
    assert row.error["code"] == "import_source_not_found"
    assert CONFIG_FILE in str(row.error["message"]) and SECRET not in str(row.error)
    assert await sealed(system_database, view) is None
    assert (await used_bytes(system_database, tenant)).used_bytes == 0


async def test_a_source_in_trouble_is_asked_again_and_given_up_in_the_end(
    imports: Imports, make_runner: MakeRunner, system_database: Database, tenant: TenantPrincipal
) -> None:
    async def respond(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")

    async with serving(respond) as web:
        view = await imports.start(tenant, "support", source_at(web.port))
        for attempt in range(1, lifecycle.MAX_ATTEMPTS + 1):
            await make_runner().run(tenant.tenant_id, view.id)
            row = await row_of(system_database, view)
            assert row.attempts == attempt
            assert "503" in str(row.last_error)
    assert row.status == ImportStatus.FAILED
    assert row.error is not None and row.error["code"] == "import_given_up"
    assert (await used_bytes(system_database, tenant)).used_bytes == 0


async def test_a_silent_workers_import_is_taken_back_and_the_late_worker_makes_no_version(
    imports: Imports,
    make_runner: MakeRunner,
    system_database: Database,
    tenant: TenantPrincipal,
    files: dict[str, bytes],
) -> None:
    """The first worker hangs while it fetches, another finishes, then the first goes on."""
    hung, go_on = asyncio.Event(), asyncio.Event()
    later = files | {WEIGHTS_FILE: files[WEIGHTS_FILE][:-1] + b"?"}
    answers: list[Respond] = [folder_of(later), folder_of(files)]

    async def respond(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.target.startswith(f"/{WEIGHTS_FILE}"):
            mine = answers.pop(0)
            if answers:
                hung.set()
                await go_on.wait()
            await mine(asked, writer)
        else:
            await folder_of(files)(asked, writer)

    async with serving(respond) as web:
        view = await imports.start(tenant, "support", source_at(web.port))
        late = asyncio.create_task(make_runner().run(tenant.tenant_id, view.id))
        await hung.wait()
        await pass_time(system_database, view)
        async with system_database.unit_of_work() as session:
            assert await lifecycle.sweep(session, 1000) >= 1
        assert await make_runner().run(tenant.tenant_id, view.id)
        go_on.set()
        assert not await late
    assert len(await versions(system_database, tenant)) == 1
    row = await row_of(system_database, view)
    assert (row.status, row.version, row.attempts) == (ImportStatus.COMPLETED, 1, 2)


async def test_a_running_import_renews_its_lease_and_tells_how_far_it_is(
    imports: Imports,
    make_runner: MakeRunner,
    system_database: Database,
    tenant: TenantPrincipal,
    files: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loraplex.platform.leases.under_lease.__defaults__", (0.02,))
    go_on = asyncio.Event()

    async def respond(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.target.startswith(f"/{WEIGHTS_FILE}"):
            await go_on.wait()
        await folder_of(files)(asked, writer)

    async def fetched(size_bytes: int) -> bool:
        return (await row_of(system_database, view)).fetched_bytes == size_bytes

    async def is_alive() -> bool:
        statement = select(AdapterImport.deadline_at > func.now())
        async with system_database.unit_of_work() as session:
            found = await session.scalar(statement.where(AdapterImport.id == view.id))
            return found is True

    async with serving(respond) as web:
        view = await imports.start(tenant, "support", source_at(web.port))
        running = asyncio.create_task(make_runner().run(tenant.tenant_id, view.id))
        async with asyncio.timeout(30):
            await until(lambda: fetched(len(files[CONFIG_FILE])))
            await pass_time(system_database, view)
            await until(is_alive)
        go_on.set()
        assert await running


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():  # noqa: ASYNC110 - a row changes
        await asyncio.sleep(0.02)


async def test_a_quota_that_ends_while_fetching_fails_the_import(
    imports: Imports,
    make_runner: MakeRunner,
    tenant: TenantPrincipal,
    system_database: Database,
    files: dict[str, bytes],
) -> None:
    large = files | {WEIGHTS_FILE: bytes(900_000)}
    async with serving(folder_of(large)) as web:
        view = await imports.start(tenant, "support", source_at(web.port))
        await limit(system_database, tenant, max_storage_bytes=800_000)
        await make_runner().run(tenant.tenant_id, view.id)
    row = await row_of(system_database, view)
    assert row.error is not None and row.error["code"] == "storage_quota_exceeded"
    assert (await used_bytes(system_database, tenant)).used_bytes == 0


async def test_a_queued_import_waits_while_uploads_are_off(
    imports: Imports,
    make_runner: MakeRunner,
    tenant: TenantPrincipal,
    files: dict[str, bytes],
    system_database: Database,
) -> None:
    async with serving(folder_of(files)) as web:
        view = await imports.start(tenant, "parrot", source_at(web.port))
        async with switched_on(system_database, NO_UPLOADS):
            with pytest.raises(UploadsOff):
                await imports.start(tenant, "other", source_at(web.port))
            assert not await make_runner().run(tenant.tenant_id, view.id)
            row = await row_of(system_database, view)
            assert (row.status, row.attempts) == (ImportStatus.QUEUED, 0)
        assert await make_runner().run(tenant.tenant_id, view.id)
    assert (await row_of(system_database, view)).status == ImportStatus.COMPLETED
