from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

import pytest
from sqlalchemy import func, select, update

from loraplex.platform.database.sessions import Database
from loraplex.platform.outbound.client import OutboundClient
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.dispatcher import Dispatcher
from loraplex.platform.webhooks.endpoints import Webhooks
from loraplex.platform.webhooks.models import (
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from tests.platform.webhooks.bench import Bench, BenchOf, MakeBench, allowing
from tests.web_server import Respond, WebServer, serving


@dataclass(frozen=True)
class Told:
    """An event as an endpoint is told of it."""

    endpoint: str
    type: str
    data: dict[str, object]
    status: str


async def new_tenant(system: Database, settings: Settings) -> TenantId:
    administration = TenantAdministration(SecretKeys.from_settings(settings))
    async with system.unit_of_work() as session:
        return TenantId((await administration.create_tenant(session, f"t-{uuid4().hex}")).id)


@pytest.fixture
async def tenant_id(system_database: Database, services: Settings) -> TenantId:
    return await new_tenant(system_database, services)


@pytest.fixture
async def neighbour_id(system_database: Database, services: Settings) -> TenantId:
    return await new_tenant(system_database, services)


async def add_endpoint(
    database: Database, tenant_id: TenantId, url: str, *event_types: str
) -> WebhookEndpoint:
    """An enabled endpoint whose secret nobody needs to open."""
    endpoint = WebhookEndpoint(
        tenant_id=tenant_id,
        url=url,
        description="",
        event_types=list(event_types),
        is_enabled=True,
        sealed_secret=b"unread",
    )
    async with database.unit_of_work(tenant_id) as session:
        session.add(endpoint)
    return endpoint


async def told(system: Database, tenant_id: TenantId) -> list[Told]:
    """Everything that the tenant's endpoints are told, in the order of their addresses."""
    statement = (
        select(WebhookEndpoint.url, WebhookEvent.type, WebhookEvent.data, WebhookDelivery.status)
        .join(WebhookDelivery, WebhookDelivery.endpoint_id == WebhookEndpoint.id)
        .join(WebhookEvent, WebhookEvent.id == WebhookDelivery.event_id)
        .where(WebhookEndpoint.tenant_id == tenant_id)
        .order_by(WebhookEndpoint.url, WebhookEvent.created_at)
    )
    async with system.unit_of_work() as session:
        return [Told(*row) for row in await session.execute(statement)]


@pytest.fixture
async def make_bench(
    database: Database, system_database: Database, tenant_id: TenantId
) -> AsyncIterator[MakeBench]:
    clients: list[OutboundClient] = []
    # What other tests left is nobody's business here: it would be sent, too.
    async with system_database.unit_of_work() as session:
        await session.execute(
            update(WebhookDelivery)
            .where(WebhookDelivery.status == "pending")
            .values(status="cancelled", finished_at=func.now())
        )

    async def make(settings: Settings, url: str) -> Bench:
        client = await OutboundClient.from_settings(settings).__aenter__()
        clients.append(client)
        secrets = SecretKeys.from_settings(settings)
        webhooks = Webhooks(secrets, client.rules)
        async with database.unit_of_work(tenant_id) as session:
            endpoint, secret = await webhooks.create(
                session, tenant_id, url=url, description="", event_types=()
            )
        dispatcher = Dispatcher(system_database, secrets, client)
        return Bench(database, system_database, tenant_id, webhooks, dispatcher, endpoint, secret)

    yield make
    for client in clients:
        await client.__aexit__()


@pytest.fixture
def bench_of(make_bench: MakeBench, services: Settings) -> BenchOf:
    """Opens a bench whose endpoint is a server that responds so."""

    @asynccontextmanager
    async def opened(respond: Respond) -> AsyncIterator[tuple[Bench, WebServer]]:
        async with serving(respond) as web:
            settings = allowing(services, web)
            yield await make_bench(settings, f"http://127.0.0.1:{web.port}/hook"), web

    return opened
