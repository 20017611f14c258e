"""A tenant with one endpoint, and a dispatcher that sends when it is told to."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, update

from loraplex.platform.database.pages import PageRequest
from loraplex.platform.database.sessions import Database
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks import deliveries
from loraplex.platform.webhooks.dispatcher import Dispatcher
from loraplex.platform.webhooks.endpoints import Webhooks
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit
from loraplex.platform.webhooks.models import (
    WebhookDelivery,
)
from loraplex.platform.webhooks.views import DeliveryView, EndpointView
from tests.web_server import Respond, WebServer

READY = EventType.VERSION_VALIDATED


@dataclass
class Bench:
    """A tenant with one endpoint, and a dispatcher that sends when it is told to."""

    database: Database
    system: Database
    tenant_id: TenantId
    webhooks: Webhooks
    dispatcher: Dispatcher
    endpoint: EndpointView
    secret: str

    async def emit(self, version: int = 1, event_type: EventType = READY) -> None:
        async with self.database.unit_of_work(self.tenant_id) as session:
            await emit(session, self.tenant_id, event_type, {"version": version})

    async def send_due(self) -> int:
        """Send what is due now, and wait for the answers; how many calls that were."""
        calls = 0
        while started := await self.dispatcher.start_due():
            calls += started
            await self.dispatcher.drain()
        return calls

    async def make_due(self) -> None:
        """Let the time pass until every delivery that waits is due."""
        await self.change_deliveries(next_attempt_at=func.now())

    async def change_deliveries(self, **values: object) -> None:
        async with self.system.unit_of_work() as session:
            await session.execute(
                update(WebhookDelivery)
                .where(WebhookDelivery.tenant_id == self.tenant_id)
                .values(**values)
            )

    async def deliveries(self) -> list[DeliveryView]:
        async with self.database.unit_of_work(self.tenant_id) as session:
            page = await deliveries.page_of_deliveries(
                session, self.tenant_id, self.endpoint.id, PageRequest()
            )
        return page.items

    async def delivery(self) -> DeliveryView:
        (one,) = await self.deliveries()
        return one

    async def refreshed(self) -> EndpointView:
        async with self.database.unit_of_work(self.tenant_id) as session:
            return await self.webhooks.get(session, self.tenant_id, self.endpoint.id)

    async def retry(self, delivery_id: UUID) -> DeliveryView:
        async with self.database.unit_of_work(self.tenant_id) as session:
            return await deliveries.retry(session, self.tenant_id, self.endpoint.id, delivery_id)


def allowing(settings: Settings, *servers: WebServer) -> Settings:
    """The settings of an operator who lets webhooks call this machine."""
    return settings.model_copy(
        update={
            "outbound_http": True,
            "outbound_private_hosts": "127.0.0.1",
            "outbound_ports": ",".join(["443", *(str(server.port) for server in servers)]),
        }
    )


MakeBench = Callable[[Settings, str], Awaitable[Bench]]


BenchOf = Callable[[Respond], AbstractAsyncContextManager[tuple[Bench, WebServer]]]
