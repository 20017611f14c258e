"""Deliveries that end: given up, cancelled, tried once more by a person, forgotten."""

import asyncio
import json
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update

from loraplex.platform.webhooks.claims import GIVEN_UP_IN_A_ROW
from loraplex.platform.webhooks.errors import DeliveryNotFound, DeliveryUnderWay, WebhookDisabled
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.models import (
    DisabledReason,
    WebhookDelivery,
    WebhookEvent,
)
from loraplex.platform.webhooks.schedule import MAX_ATTEMPTS
from loraplex.platform.webhooks.sweeps import (
    forget_deliveries,
    forget_events,
)
from tests.platform.webhooks.bench import Bench, BenchOf
from tests.web_server import Asked, answering


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
