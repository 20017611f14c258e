from collections.abc import AsyncIterator

import psycopg
import pytest
from sqlalchemy import func, select, update

from loraplex.platform.database.sessions import Database
from loraplex.platform.database.urls import libpq_url
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit, emit_to
from loraplex.platform.webhooks.models import WebhookEndpoint, WebhookEvent
from tests.platform.webhooks.conftest import Told, add_endpoint, told

READY = EventType.VERSION_VALIDATED
DATA: dict[str, object] = {"adapter": "parrot", "version": 3}


@pytest.fixture(params=["app", "system"])
async def writer(
    request: pytest.FixtureRequest, database: Database, system_database: Database
) -> AsyncIterator[Database]:
    """Both roles that have facts to tell of: gateways and background jobs."""
    yield database if request.param == "app" else system_database


async def test_an_event_goes_to_who_asks_for_its_type_or_for_all(
    writer: Database, system_database: Database, tenant_id: TenantId
) -> None:
    await add_endpoint(writer, tenant_id, "https://a.example")
    await add_endpoint(writer, tenant_id, "https://b.example", READY, EventType.ALIAS_MOVED)
    await add_endpoint(writer, tenant_id, "https://c.example", EventType.ALIAS_MOVED)
    async with writer.unit_of_work(tenant_id) as session:
        await emit(session, tenant_id, "adapter.version.validated", DATA)
    assert await told(system_database, tenant_id) == [
        Told("https://a.example", READY, DATA, "pending"),
        Told("https://b.example", READY, DATA, "pending"),
    ]


async def test_a_fact_that_is_rolled_back_is_told_to_nobody(
    writer: Database, system_database: Database, tenant_id: TenantId
) -> None:
    await add_endpoint(writer, tenant_id, "https://a.example")
    with pytest.raises(ZeroDivisionError):
        async with writer.unit_of_work(tenant_id) as session:
            await emit(session, tenant_id, READY, DATA)
            raise ZeroDivisionError
    assert await told(system_database, tenant_id) == []


async def test_neither_a_neighbour_nor_a_disabled_endpoint_is_told(
    writer: Database, system_database: Database, tenant_id: TenantId, neighbour_id: TenantId
) -> None:
    await add_endpoint(writer, neighbour_id, "https://a.example")
    off = await add_endpoint(writer, tenant_id, "https://b.example")
    async with writer.unit_of_work(tenant_id) as session:
        await session.execute(
            update(WebhookEndpoint)
            .where(WebhookEndpoint.id == off.id)
            .values(is_enabled=False, disabled_reason="tenant", disabled_at=func.now())
        )
        await emit(session, tenant_id, READY, DATA)
    assert await told(system_database, tenant_id) == []
    assert await told(system_database, neighbour_id) == []


async def test_without_endpoints_the_event_is_still_written(
    database: Database, tenant_id: TenantId
) -> None:
    async with database.unit_of_work(tenant_id) as session:
        await emit(session, tenant_id, READY, DATA)
        assert (await session.scalars(select(WebhookEvent.data))).all() == [DATA]


async def test_one_endpoint_can_be_told_of_what_it_does_not_ask_for(
    writer: Database, system_database: Database, tenant_id: TenantId
) -> None:
    chosen = await add_endpoint(writer, tenant_id, "https://a.example", READY)
    await add_endpoint(writer, tenant_id, "https://b.example")
    async with writer.unit_of_work(tenant_id) as session:
        await emit_to(session, chosen, EventType.WEBHOOK_TEST, {})
    assert await told(system_database, tenant_id) == [
        Told("https://a.example", EventType.WEBHOOK_TEST, {}, "pending")
    ]


async def test_a_misspelt_type_is_a_mistake_of_ours(
    database: Database, tenant_id: TenantId
) -> None:
    with pytest.raises(ValueError, match=r"adapter\.version\.raedy"):
        async with database.unit_of_work(tenant_id) as session:
            await emit(session, tenant_id, "adapter.version.raedy", DATA)


async def test_who_waits_for_deliveries_is_woken_at_the_commit(
    database: Database, services: Settings, tenant_id: TenantId
) -> None:
    await add_endpoint(database, tenant_id, "https://a.example")
    assert services.database_system_url is not None
    url = libpq_url(services.database_system_url.get_secret_value())
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("LISTEN loraplex_webhooks")
        async with database.unit_of_work(tenant_id) as session:
            await emit(session, tenant_id, READY, DATA)
        woken = [one async for one in connection.notifies(timeout=10, stop_after=1)]
    assert len(woken) == 1
