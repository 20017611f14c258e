"""Imports from start to version, with a source, a store and a database that are real."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select, text, update

from loraplex.adapters_registry.imports import lifecycle
from loraplex.adapters_registry.imports.errors import ImportNotFound, TooManyImports
from loraplex.adapters_registry.imports.models import AdapterImport, ImportStatus
from loraplex.adapters_registry.imports.service import Imports
from loraplex.adapters_registry.imports.sources import CONFIG_FILE, WEIGHTS_FILE, HttpsSource
from loraplex.adapters_registry.imports.views import ImportView
from loraplex.adapters_registry.uploads import quota
from loraplex.adapters_registry.uploads.errors import StorageQuotaExceeded
from loraplex.adapters_registry.versions.models import AdapterVersion, VersionStatus
from loraplex.platform.admission.models import Limits
from loraplex.platform.database.outbox import OutboxMessage
from loraplex.platform.database.pages import PageRequest
from loraplex.platform.database.sessions import Database
from loraplex.platform.leases import LeaseLost
from loraplex.platform.outbound.errors import AddressNotPublic
from loraplex.platform.switches.errors import UploadsOff
from loraplex.platform.switches.names import NO_UPLOADS
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.conftest import MakeTenant
from tests.adapters_registry.imports.conftest import MakeRunner, folder_of
from tests.switched import switched_on
from tests.web_server import Asked, Respond, serving

CLOSED_PORT = 1024
SECRET = "signature=do-not-tell"


def source_at(port: int) -> HttpsSource:
    base = f"http://127.0.0.1:{port}/"
    return HttpsSource(f"{base}{CONFIG_FILE}?{SECRET}", f"{base}{WEIGHTS_FILE}?{SECRET}")


async def row_of(system: Database, view: ImportView) -> AdapterImport:
    async with system.unit_of_work() as session:
        statement = select(AdapterImport).where(AdapterImport.id == view.id)
        return (await session.scalars(statement)).one()


async def sealed(system: Database, view: ImportView) -> bytes | None:
    async with system.unit_of_work() as session:
        statement = select(AdapterImport.sealed_source).where(AdapterImport.id == view.id)
        return (await session.execute(statement)).scalar_one()


async def versions(system: Database, tenant: TenantPrincipal) -> list[AdapterVersion]:
    async with system.unit_of_work() as session:
        mine = select(AdapterVersion).where(AdapterVersion.tenant_id == tenant.tenant_id)
        return list((await session.scalars(mine.order_by(AdapterVersion.number))).all())


async def used_bytes(system: Database, tenant: TenantPrincipal) -> quota.StorageUsage:
    async with system.unit_of_work() as session:
        return await quota.usage(session, tenant.tenant_id)


async def asked_for(system: Database, view: ImportView) -> int:
    """How often the import's task has been asked for."""
    async with system.unit_of_work() as session:
        mine = OutboxMessage.arguments["import_id"].astext == str(view.id)
        return await session.scalar(select(func.count(OutboxMessage.id)).where(mine)) or 0


async def pass_time(system: Database, view: ImportView) -> None:
    """As if the import's deadline had come."""
    async with system.unit_of_work() as session:
        await session.execute(
            update(AdapterImport)
            .where(AdapterImport.id == view.id)
            .values(deadline_at=func.now() - timedelta(seconds=1))
        )


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


async def test_one_import_of_a_tenant_runs_at_a_time_and_its_end_asks_for_the_next(
    imports: Imports,
    make_runner: MakeRunner,
    system_database: Database,
    make_tenant: MakeTenant,
    files: dict[str, bytes],
) -> None:
    tenant, other = await make_tenant(), await make_tenant()
    go_on, arrived = asyncio.Event(), asyncio.Event()

    async def respond(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.target.startswith("/slow/"):
            arrived.set()
            await go_on.wait()
        await folder_of(files, "/slow/" if asked.target.startswith("/slow/") else "/")(
            asked, writer
        )

    async with serving(respond) as web:
        slow = f"http://127.0.0.1:{web.port}/slow/"
        first = await imports.start(
            tenant, "one", HttpsSource(f"{slow}{CONFIG_FILE}", f"{slow}{WEIGHTS_FILE}")
        )
        second = await imports.start(tenant, "two", source_at(web.port))
        others = await imports.start(other, "one", source_at(web.port))
        running = asyncio.create_task(make_runner().run(tenant.tenant_id, first.id))
        await arrived.wait()
        assert not await make_runner().run(tenant.tenant_id, second.id), "it is not its turn"
        assert await make_runner().run(other.tenant_id, others.id)
        asked_before = await asked_for(system_database, second)
        go_on.set()
        await running
        assert await asked_for(system_database, second) == asked_before + 1
        assert await make_runner().run(tenant.tenant_id, second.id)
    assert {row.status for row in [await row_of(system_database, second)]} == {"completed"}


async def test_no_more_imports_run_than_there_are_slots(
    imports: Imports, make_runner: MakeRunner, tenant: TenantPrincipal, system_database: Database
) -> None:
    view = await imports.start(tenant, "support", source_at(CLOSED_PORT))
    assert not await make_runner(slots=0).run(tenant.tenant_id, view.id)
    assert (await row_of(system_database, view)).attempts == 0


async def test_a_lost_message_is_made_good_by_the_sweeper(
    imports: Imports, tenant: TenantPrincipal, system_database: Database
) -> None:
    view = await imports.start(tenant, "support", source_at(CLOSED_PORT))
    async with system_database.unit_of_work() as session:
        await lifecycle.sweep(session, 1000)
    assert await asked_for(system_database, view) == 1, "it was asked for a moment ago"
    await pass_time(system_database, view)
    async with system_database.unit_of_work() as session:
        await lifecycle.sweep(session, 1000)
        await lifecycle.sweep(session, 1000)
    assert await asked_for(system_database, view) == 2


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


async def limit(system: Database, tenant: TenantPrincipal, **limits: int) -> None:
    async with system.unit_of_work() as session:
        await session.execute(
            update(Limits).where(Limits.tenant_id == tenant.tenant_id).values(**limits)
        )


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


async def test_an_attempt_that_lost_its_claim_reserves_nothing(
    imports: Imports, tenant: TenantPrincipal, system_database: Database
) -> None:
    view = await imports.start(tenant, "support", source_at(CLOSED_PORT))
    attempt = await begin(system_database, tenant, view)
    await pass_time(system_database, view)
    async with system_database.unit_of_work() as session:
        await lifecycle.sweep(session, 1000)
    current = await begin(system_database, tenant, view)
    async with system_database.unit_of_work() as session:
        assert await lifecycle.fail(session, current, TooManyImports(0))
    with pytest.raises(LeaseLost):
        async with system_database.unit_of_work() as session:
            await lifecycle.reserve(session, attempt, 1000)
    assert (await used_bytes(system_database, tenant)).used_bytes == 0


async def test_an_attempt_that_made_its_version_may_end_in_peace(
    imports: Imports, tenant: TenantPrincipal, system_database: Database
) -> None:
    view = await imports.start(tenant, "support", source_at(CLOSED_PORT))
    attempt = await begin(system_database, tenant, view)
    async with system_database.unit_of_work() as session:
        await lifecycle.complete(session, attempt, 1, 1000)
        assert await lifecycle.renew(session, attempt, 1000)
        assert not await lifecycle.renew(session, replace(attempt, number=2), 1000)


async def begin(system: Database, tenant: TenantPrincipal, view: ImportView) -> lifecycle.Attempt:
    async with system.unit_of_work() as session:
        attempt = await lifecycle.begin(session, tenant.tenant_id, view.id, 1000)
    assert attempt is not None
    return attempt


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
