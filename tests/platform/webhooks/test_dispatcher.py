"""Deliveries from the event to a receiver that listens on a port of this machine."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, update
from standardwebhooks import Webhook

from loraplex.platform.metrics import WEBHOOK_ATTEMPTS
from loraplex.platform.settings import Settings
from loraplex.platform.webhooks.dispatcher import Dispatcher, run_dispatcher
from loraplex.platform.webhooks.models import (
    WebhookEndpoint,
)
from loraplex.platform.webhooks.sweeps import (
    drop_expired_secrets,
)
from tests.platform.webhooks.bench import READY, BenchOf, MakeBench, allowing
from tests.web_server import Asked, answering, serving


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
