"""Deliveries from the event to a receiver that listens on a port of this machine."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import func, select, update
from standardwebhooks import Webhook

from loraplex.platform.database.pages import PageRequest
from loraplex.platform.database.sessions import Database
from loraplex.platform.metrics import WEBHOOK_ATTEMPTS
from loraplex.platform.outbound.client import OutboundClient
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks import deliveries
from loraplex.platform.webhooks.claims import GIVEN_UP_IN_A_ROW
from loraplex.platform.webhooks.dispatcher import Dispatcher, run_dispatcher
from loraplex.platform.webhooks.endpoints import Webhooks
from loraplex.platform.webhooks.errors import DeliveryNotFound, DeliveryUnderWay, WebhookDisabled
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit
from loraplex.platform.webhooks.models import (
    DisabledReason,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from loraplex.platform.webhooks.schedule import MAX_ATTEMPTS
from loraplex.platform.webhooks.sweeps import (
    drop_expired_secrets,
    forget_deliveries,
    forget_events,
)
from loraplex.platform.webhooks.views import DeliveryView, EndpointView
from tests.web_server import Asked, Respond, WebServer, answering, serving

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


BenchOf = Callable[[Respond], AbstractAsyncContextManager[tuple[Bench, WebServer]]]


@pytest.fixture
def bench_of(make_bench: MakeBench, services: Settings) -> BenchOf:
    """Opens a bench whose endpoint is a server that responds so."""

    @asynccontextmanager
    async def opened(respond: Respond) -> AsyncIterator[tuple[Bench, WebServer]]:
        async with serving(respond) as web:
            settings = allowing(services, web)
            yield await make_bench(settings, f"http://127.0.0.1:{web.port}/hook"), web

    return opened


async def test_a_receiver_can_verify_what_it_gets_with_the_stock_library(bench_of: BenchOf) -> None:
    async with bench_of(answering(b"thanks")) as (bench, web):
        await bench.emit(3)
        assert await bench.send_due() == 1
        (asked,) = web.asked
        assert (asked.method, asked.target) == ("POST", "/hook")
        assert asked.headers["content-type"] == "application/json"
        message = Webhook(bench.secret).verify(asked.body, asked.headers)
        assert (message["type"], message["data"]) == (READY, {"version": 3})
        assert datetime.fromisoformat(message["timestamp"]).tzinfo is not None
        delivery = await bench.delivery()
        assert asked.headers["webhook-id"] == f"msg_{delivery.event_id.hex}"
        assert (delivery.status, delivery.event_type) == ("delivered", READY)
        assert delivery.finished_at is not None
        (one,) = delivery.attempts
        assert (one.number, one.status_code, one.response, one.error) == (1, 200, "thanks", None)
        assert one.milliseconds >= 0
        assert await bench.send_due() == 0


async def test_during_a_rotation_both_secrets_sign_and_after_it_one(bench_of: BenchOf) -> None:
    async with bench_of(answering()) as (bench, web):
        async with bench.database.unit_of_work(bench.tenant_id) as session:
            _, new = await bench.webhooks.rotate_secret(
                session, bench.tenant_id, bench.endpoint.id, timedelta(hours=1)
            )
        await bench.emit()
        await bench.send_due()
        for secret in (bench.secret, new):
            Webhook(secret).verify(web.asked[0].body, web.asked[0].headers)
        async with bench.system.unit_of_work() as session:
            await session.execute(
                update(WebhookEndpoint)
                .where(WebhookEndpoint.id == bench.endpoint.id)
                .values(previous_secret_expires_at=func.now() - timedelta(seconds=1))
            )
        await bench.emit()
        await bench.send_due()
        assert len(web.asked[1].headers["webhook-signature"].split()) == 1
        Webhook(new).verify(web.asked[1].body, web.asked[1].headers)
        async with bench.system.unit_of_work() as session:
            await drop_expired_secrets(session)
        assert (await bench.refreshed()).previous_secret_expires_at is None


async def test_a_failure_is_tried_again_later_with_the_same_message(bench_of: BenchOf) -> None:
    answers = [answering(b"busy\0" + b"\xff" * 3000, "503 Busy"), answering()]

    async def respond(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await answers.pop(0)(asked, writer)

    async with bench_of(respond) as (bench, web):
        await bench.emit()
        assert await bench.send_due() == 1
        failed = await bench.delivery()
        assert failed.status == "pending"
        assert failed.next_attempt_at is not None
        wait = failed.next_attempt_at - datetime.now(UTC)
        assert timedelta(seconds=2) < wait < timedelta(seconds=13)
        assert failed.attempts[0].response is not None
        assert len(failed.attempts[0].response) == 2048
        assert failed.attempts[0].response.startswith("busy\ufffd")
        await bench.make_due()
        assert await bench.send_due() == 1
        delivered = await bench.delivery()
        assert [one.status_code for one in delivered.attempts] == [503, 200]
        first, second = web.asked
        assert first.body == second.body
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        Webhook(bench.secret).verify(second.body, second.headers)


async def test_a_receiver_that_asks_for_time_gets_it(bench_of: BenchOf) -> None:
    respond = answering(status="429 Slow Down", headers=["Retry-After: 600"])
    async with bench_of(respond) as (bench, _):
        await bench.emit()
        await bench.send_due()
        due = (await bench.delivery()).next_attempt_at
        assert due is not None
        assert due - datetime.now(UTC) > timedelta(minutes=9)


@pytest.mark.parametrize(
    ("private", "error"),
    [
        ("127.0.0.1", "could not be connected to"),
        (None, "is not on the public internet"),
    ],
)
async def test_what_never_answered_is_written_down_with_its_reason(
    private: str | None, error: str, make_bench: MakeBench, services: Settings
) -> None:
    async with serving(answering()) as web:
        pass  # its port is free again, and nobody listens
    settings = allowing(services, web).model_copy(update={"outbound_private_hosts": private})
    bench = await make_bench(settings, f"http://localhost:{web.port}/")
    before = WEBHOOK_ATTEMPTS.labels("no_answer")._value.get()
    await bench.emit()
    await bench.send_due()
    (one,) = (await bench.delivery()).attempts
    assert (one.status_code, one.response) == (None, None)
    assert one.error is not None
    assert error in one.error
    assert WEBHOOK_ATTEMPTS.labels("no_answer")._value.get() == before + 1


async def test_a_redirect_is_not_followed(bench_of: BenchOf) -> None:
    respond = answering(status="302 Found", headers=["Location: http://127.0.0.1:1/"])
    async with bench_of(respond) as (bench, web):
        await bench.emit()
        await bench.send_due()
        assert len(web.asked) == 1
        assert (await bench.delivery()).attempts[0].status_code == 302


async def exhaust(bench: Bench) -> None:
    """Fail until the delivery is given up."""
    await bench.change_deliveries(attempts=MAX_ATTEMPTS - 1, next_attempt_at=func.now())
    await bench.send_due()


async def test_the_last_attempt_gives_up_and_a_person_can_try_once_more(bench_of: BenchOf) -> None:
    answers = [answering(status="500 Broken"), answering()]

    async def respond(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await answers.pop(0)(asked, writer)

    async with bench_of(respond) as (bench, _):
        await bench.emit()
        with pytest.raises(DeliveryUnderWay):
            await bench.retry((await bench.delivery()).id)
        await exhaust(bench)
        failed = await bench.delivery()
        assert (failed.status, failed.next_attempt_at) == ("failed", None)
        assert (await bench.refreshed()).consecutive_failures == 1
        assert (await bench.retry(failed.id)).status == "pending"
        await bench.send_due()
        assert (await bench.delivery()).status == "delivered"
        assert (await bench.refreshed()).consecutive_failures == 0
        with pytest.raises(DeliveryNotFound):
            await bench.retry(bench.endpoint.id)


async def test_an_endpoint_that_fails_again_and_again_is_disabled_and_others_are_told(
    bench_of: BenchOf,
) -> None:
    async with bench_of(answering(status="500 Broken")) as (bench, web):
        async with bench.database.unit_of_work(bench.tenant_id) as session:
            other, _ = await bench.webhooks.create(
                session,
                bench.tenant_id,
                url=f"http://127.0.0.1:{web.port}/other",
                description="",
                event_types=[EventType.WEBHOOK_DISABLED],
            )
        for version in range(GIVEN_UP_IN_A_ROW):
            assert (await bench.refreshed()).is_enabled
            await bench.emit(version)
            await exhaust(bench)
        off = await bench.refreshed()
        assert (off.is_enabled, off.disabled_reason) == (False, DisabledReason.FAILURES)
        with pytest.raises(WebhookDisabled):
            await bench.retry((await bench.deliveries())[0].id)
        message = json.loads(web.asked[-1].body)
        assert web.asked[-1].target == "/other"
        assert message["type"] == EventType.WEBHOOK_DISABLED
        assert message["data"] == {
            "webhook": str(bench.endpoint.id),
            "url": bench.endpoint.url,
            "reason": "failures",
        }
        calls = len(web.asked)
        await bench.emit()
        await bench.send_due()
        assert len(web.asked) == calls
        async with bench.database.unit_of_work(bench.tenant_id) as session:
            on = await bench.webhooks.change(
                session, bench.tenant_id, bench.endpoint.id, is_enabled=True
            )
        assert on.is_enabled
        await bench.emit()
        await bench.send_due()
        assert len(web.asked) == calls + 1
        assert other.id != on.id


async def test_410_means_never_again(bench_of: BenchOf) -> None:
    async with bench_of(answering(status="410 Gone")) as (bench, _):
        await bench.emit(1)
        await bench.emit(2)
        await bench.send_due()
        off = await bench.refreshed()
        assert (off.is_enabled, off.disabled_reason) == (False, DisabledReason.GONE)
        assert {one.status for one in await bench.deliveries()} == {"failed", "cancelled"}


async def test_a_healthy_endpoint_gets_events_one_at_a_time_in_their_order(
    bench_of: BenchOf,
) -> None:
    under_way, most = 0, 0

    async def respond(asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await answering()(asked, writer)
        await writer.drain()
        under_way -= 1

    async with bench_of(respond) as (bench, web):
        for version in range(8):
            await bench.emit(version)
        await bench.send_due()
        seen = [json.loads(asked.body)["data"]["version"] for asked in web.asked]
        assert (seen, most) == (list(range(8)), 1)


async def test_a_delivery_whose_dispatcher_died_is_due_again_when_its_lease_ends(
    bench_of: BenchOf,
) -> None:
    never = asyncio.Event()

    async def hang(_: Asked, __: asyncio.StreamWriter) -> None:
        await never.wait()

    async with bench_of(hang) as (bench, web):
        await bench.emit()
        assert await bench.dispatcher.start_due() == 1
        while not web.asked:  # noqa: ASYNC110 - the server is asked
            await asyncio.sleep(0.01)
        # Another dispatcher leaves it alone, until the first has been silent for too long.
        other = Dispatcher(bench.system, bench.webhooks.secrets, bench.dispatcher._client)
        assert await other.start_due() == 0
        await bench.make_due()
        web.respond = answering()
        assert await other.start_due() == 1
        await other.drain()
        delivery = await bench.delivery()
        assert (delivery.status, [one.number for one in delivery.attempts]) == ("delivered", [2])
        never.set()
        await bench.dispatcher.drain()  # the first comes back, and changes nothing
        assert (await bench.delivery()).status == "delivered"


async def test_the_running_dispatcher_sends_within_moments_of_the_commit(
    bench_of: BenchOf, services: Settings
) -> None:
    async with bench_of(answering()) as (bench, web):
        running = asyncio.create_task(run_dispatcher(bench.system, allowing(services, web)))
        try:
            async with asyncio.timeout(30):
                for version in range(3):
                    await bench.emit(version)
                    while len(web.asked) <= version:  # noqa: ASYNC110 - the server is asked
                        await asyncio.sleep(0.01)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_old_deliveries_and_events_are_forgotten_and_what_is_pending_is_not(
    bench_of: BenchOf,
) -> None:
    async with bench_of(answering()) as (bench, _):
        await bench.emit(1)
        await bench.send_due()
        await bench.emit(2)
        long_ago = func.now() - timedelta(days=31)
        await bench.change_deliveries(created_at=long_ago)
        async with bench.system.unit_of_work() as session:
            await session.execute(
                update(WebhookEvent)
                .where(WebhookEvent.tenant_id == bench.tenant_id)
                .values(created_at=long_ago)
            )
        async with bench.system.unit_of_work() as session:
            assert await forget_deliveries(session) >= 1
            assert await forget_events(session) >= 1
        (left,) = await bench.deliveries()
        assert left.status == "pending"
        async with bench.system.unit_of_work() as session:
            mine = select(func.count()).where(WebhookDelivery.tenant_id == bench.tenant_id)
            assert await session.scalar(mine) == 1
