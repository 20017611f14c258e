from dataclasses import dataclass
from uuid import uuid4

import pytest
from sqlalchemy import select

from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.models import WebhookDelivery, WebhookEndpoint, WebhookEvent


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
