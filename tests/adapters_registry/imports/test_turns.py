"""Whose import is fetched, and what becomes of one whose turn was lost."""

import asyncio
from dataclasses import replace

import pytest

from loraplex.adapters_registry.imports import lifecycle
from loraplex.adapters_registry.imports.errors import TooManyImports
from loraplex.adapters_registry.imports.service import Imports
from loraplex.adapters_registry.imports.sources import CONFIG_FILE, WEIGHTS_FILE, HttpsSource
from loraplex.platform.database.sessions import Database
from loraplex.platform.leases import LeaseLost
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.conftest import MakeTenant
from tests.adapters_registry.imports.asking import (
    CLOSED_PORT,
    asked_for,
    begin,
    pass_time,
    row_of,
    source_at,
    used_bytes,
)
from tests.adapters_registry.imports.conftest import MakeRunner, folder_of
from tests.web_server import Asked, serving


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
