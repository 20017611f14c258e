"""Fifty at once against what three may have: exactly three get it, on every way to a model."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.models import Tenant as TenantRow
from tests.api.conftest import CallFactory, Tenant, in_system
from tests.api.running import RunningGateway, running_gateway
from tests.api.tenant.test_limits import held
from tests.api.waiting import eventually

BASE = "smollm2-135m-instruct"
MODEL_BODY = {"model": BASE, "ignore_eos": True, "temperature": 0}
CHAT = {**MODEL_BODY, "messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 8}
COMPLETION = {**MODEL_BODY, "prompt": [9, 9, 9], "max_tokens": 8}
CLIENTS, PAID_CALLS = 50, 3
MICRO_PER_TOKEN = 1_000_000
"""A micro-unit a token, as a rate for a million of them."""

WAYS: list[Any] = [
    pytest.param("chat/completions", CHAT, False, id="chat"),
    pytest.param("completions", COMPLETION, False, id="completions"),
    pytest.param("chat/completions", {**CHAT, "stream": True}, False, id="streaming"),
    pytest.param("chat/completions", {**CHAT, "stream": True}, True, id="playground"),
]


@pytest.fixture
def price(gateway: RunningGateway, customer: Tenant, operator_key: str) -> None:
    """Answers cost the customer a micro-unit a token, prompts nothing."""
    order = {
        "tenant": customer.name,
        "input_micros_per_million": 0,
        "cached_input_micros_per_million": 0,
        "output_micros_per_million": MICRO_PER_TOKEN,
        "currency": "USD",
    }
    with gateway.client(operator_key) as client:
        client.post("/api/v1/admin/prices", json=order).raise_for_status()


def budget(gateway: RunningGateway, operator_key: str, tenant: Tenant, micros: int) -> None:
    with gateway.client(operator_key) as client:
        path = f"/api/v1/admin/tenants/{tenant.name}"
        client.put(f"{path}/limits", json={}).raise_for_status()
        order = {"monthly_budget_micros": micros}
        client.put(f"{path}/budgets", json=order).raise_for_status()


def in_use(gateway: RunningGateway, tenant: Tenant) -> dict[str, int]:
    with gateway.client(tenant.key) as client:
        [tenants] = client.get("/api/v1/limits").json()["data"]
    used: dict[str, int] = tenants["in_use"]
    return used


@contextmanager
def caller(gateway: RunningGateway, key: str, *, is_playground: bool) -> Iterator[httpx.Client]:
    """A program with the key; or the playground: a page of ours, with a session's cookie."""
    with gateway.client(None if is_playground else key) as client:
        if is_playground:
            client.headers.update({"Origin": gateway.url, "X-Loraplex-CSRF": "1"})
            client.post("/api/v1/session", json={"api_key": key}).raise_for_status()
        yield client


def at_once(client: httpx.Client, call: Callable[[httpx.Client], httpx.Response]) -> list[Any]:
    """The answers of fifty threads that a barrier lets go together."""
    barrier = Barrier(CLIENTS)

    def attempt(_: int) -> httpx.Response:
        barrier.wait()
        return call(client)

    with ThreadPoolExecutor(CLIENTS) as threads:
        return list(threads.map(attempt, range(CLIENTS)))


@pytest.mark.usefixtures("price")
@pytest.mark.parametrize(("route", "body", "is_playground"), WAYS)
def test_a_budget_for_three_calls_pays_exactly_three(
    route: str,
    body: dict[str, Any],
    is_playground: bool,
    gateway: RunningGateway,
    gateway_settings: Settings,
    customer: Tenant,
    operator_key: str,
) -> None:
    budget(gateway, operator_key, customer, PAID_CALLS * 8)
    with caller(gateway, customer.key, is_playground=is_playground) as client:
        answers = at_once(client, lambda one: one.post(f"/v1/{route}", json=body))
        passed = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert (len(passed), len(refused)) == (PAID_CALLS, CLIENTS - PAID_CALLS)
        assert {answer.json()["error"]["code"] for answer in refused} == {"insufficient_quota"}
        for answer in refused:  # while it is only held, waiting may help
            assert ("Retry-After" in answer.headers) != ("x-should-retry" in answer.headers)
        gone = client.post(f"/v1/{route}", json=body)
    assert gone.headers["x-should-retry"] == "false"
    assert "Retry-After" not in gone.headers
    used = in_use(gateway, customer)
    assert (used["spent_month_micros"], used["reserved_micros"]) == (PAID_CALLS * 8, 0)
    assert held(gateway_settings, customer) == 0


@pytest.mark.usefixtures("price")
def test_after_failures_and_cancels_nothing_is_reserved_and_what_ran_is_spent(
    gateway: RunningGateway,
    gateway_settings: Settings,
    customer: Tenant,
    operator_key: str,
    call: CallFactory,
) -> None:
    budget(gateway, operator_key, customer, 10_000)
    endless = {"model": BASE, "prompt": "go on", "max_tokens": 1000, "ignore_eos": True}
    for is_streamed in (True, False, True):
        running = call(gateway, customer.key, {**endless, "stream": is_streamed})
        eventually("it to be admitted", lambda: held(gateway_settings, customer) == 1)
        if is_streamed:
            assert running.answer().status == 200
        running.close()
        eventually("it to be settled", lambda: held(gateway_settings, customer) == 0)
    with gateway.client(customer.key) as client:
        too_long = {**COMPLETION, "max_tokens": 10**6}
        assert client.post("/v1/completions", json=too_long).status_code == 400
        client.post("/v1/completions", json=COMPLETION).raise_for_status()
    used = in_use(gateway, customer)
    assert (used["reserved_micros"], used["running"]) == (0, 0)
    assert used["spent_month_micros"] == output_tokens(gateway_settings, customer)


def test_when_every_worker_is_full_it_is_our_fault_and_soon_over(
    gateway: RunningGateway,
    gateway_settings: Settings,
    customer: Tenant,
    neighbour: Tenant,
    call: CallFactory,
) -> None:
    small = gateway_settings.model_copy(update={"max_worker_requests": 1})
    with running_gateway(small) as full, full.client(neighbour.key) as other:
        endless = {"model": BASE, "prompt": "go on", "max_tokens": 4000, "ignore_eos": True}
        running = call(full, customer.key, {**endless, "stream": True})
        assert running.answer().status == 200
        refused = other.post("/v1/completions", json=COMPLETION)
        assert refused.status_code == 503
        error = refused.json()["error"]
        assert (error["code"], error["type"]) == ("overloaded", "server_error")
        assert refused.headers["Retry-After"] == "2"
        assert not [name for name in refused.headers if name.startswith("x-should-retry")]
        assert held(gateway_settings, neighbour) == 0
        running.close()
        eventually("room again", lambda: other.post("/v1/completions", json=COMPLETION).is_success)


def output_tokens(settings: Settings, tenant: Tenant) -> int:
    """Of the whole ledger."""

    async def count(session: Any) -> int:
        mine = select(LedgerEntry).join(TenantRow, TenantRow.id == LedgerEntry.tenant_id)
        rows = await session.scalars(mine.where(TenantRow.name == tenant.name))
        return sum(row.output_tokens for row in rows)

    found: int = asyncio.run(in_system(settings, count))
    return found
