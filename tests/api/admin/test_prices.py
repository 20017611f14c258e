import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select

from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.metering.prices import FREE_PRICE_ID
from loraplex.platform.settings import Settings
from tests.api.conftest import CallFactory, Tenant, in_system
from tests.api.raw_calls import BASE, ENDLESS, ledger, reservations
from tests.api.running import RunningGateway
from tests.api.waiting import eventually
from tests.engine.worker.echo_engine import EchoEngine

URL = "/api/v1/admin/prices"
RATES = {
    "input_micros_per_million": 400_000,
    "cached_input_micros_per_million": 100_000,
    "output_micros_per_million": 1_200_000,
    "currency": "USD",
}


def make(gateway: RunningGateway, operator_key: str, **changes: Any) -> httpx.Response:
    with gateway.client(operator_key) as client:
        return client.post(URL, json=RATES | changes)


def test_a_price_is_made_listed_and_audited(
    gateway: RunningGateway, gateway_settings: Settings, operator_key: str, customer: Tenant
) -> None:
    answer = make(gateway, operator_key, tenant=customer.name, base_model=BASE)
    assert answer.status_code == 201, answer.text
    price = answer.json()
    assert (price["tenant"], price["base_model"]) == (customer.name, BASE)
    assert price["storage_micros_per_gib_month"] is None
    with gateway.client(operator_key) as client:
        page = client.get(URL, params={"limit": 1}).json()
    assert page["data"] == [price]
    assert page["next_cursor"] is not None

    async def audited(session: Any) -> Any:
        mine = select(AuditEvent).where(AuditEvent.target_id == price["id"])
        return (await session.scalars(mine)).one()

    event = asyncio.run(in_system(gateway_settings, audited))
    assert (event.action, event.before) == ("price.created", None)
    assert event.after["output_micros_per_million"] == 1_200_000


def test_a_price_change_in_mid_stream_leaves_the_stream_the_price_of_its_admission(
    gateway: RunningGateway,
    gateway_settings: Settings,
    engine: EchoEngine,
    operator_key: str,
    customer: Tenant,
    call: CallFactory,
) -> None:
    """And the next call is billed by the new one, on this gateway at once."""
    first = make(gateway, operator_key, tenant=customer.name).json()
    streaming = call(gateway, customer.key, ENDLESS | {"max_tokens": 300, "stream": True})
    assert streaming.answer().status == 200
    assert ledger(gateway_settings, customer) == []
    second = make(
        gateway, operator_key, tenant=customer.name, output_micros_per_million=9_000_000
    ).json()
    assert streaming.events()[-1] == "[DONE]"
    call(gateway, customer.key, ENDLESS | {"max_tokens": 3}).json()
    rows = eventually(
        "both rows", lambda: (found := ledger(gateway_settings, customer))[1:] and found
    )
    assert [str(row.price_id) for row in rows] == [first["id"], second["id"]]
    for row, output_rate in zip(rows, (1_200_000, 9_000_000), strict=True):
        micros = (row.prompt_tokens - row.cached_tokens) * 400_000 + row.cached_tokens * 100_000
        assert row.cost_micros == -(-(micros + row.output_tokens * output_rate) // 1_000_000)
    assert rows[0].output_tokens == 300


def test_a_call_that_ends_before_its_first_token_costs_nothing(
    gateway: RunningGateway,
    gateway_settings: Settings,
    engine: EchoEngine,
    operator_key: str,
    customer: Tenant,
    call: CallFactory,
) -> None:
    price = make(gateway, operator_key, tenant=customer.name).json()
    engine.allowed.clear()
    try:
        running = call(gateway, customer.key, ENDLESS | {"stream": True})
        eventually("the call to run", lambda: reservations(gateway_settings, customer) == 1)
        running.close()
        (row,) = eventually("the ledger row", lambda: ledger(gateway_settings, customer))
    finally:
        engine.allowed.set()
    assert (str(row.price_id), row.cost_micros, row.prompt_tokens) == (price["id"], 0, 0)


def test_everything_is_free_until_somebody_makes_a_price(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant, call: CallFactory
) -> None:
    call(gateway, customer.key, ENDLESS | {"max_tokens": 3}).json()
    (row,) = ledger(gateway_settings, customer)
    assert (row.price_id, row.cost_micros) == (FREE_PRICE_ID, 0)


@pytest.mark.parametrize(
    ("changes", "status", "code", "field"),
    [
        ({"effective_from": "2026-01-01T00:00:00Z"}, 400, "price_dated_back", "effective_from"),
        ({"effective_from": "2199-01-01T00:00:00"}, 400, "invalid_value", "effective_from"),
        ({"currency": "EUR"}, 400, "currency_mismatch", "currency"),
        ({"currency": "usd"}, 400, "invalid_value", "currency"),
        ({"output_micros_per_million": -1}, 400, "invalid_value", "output_micros_per_million"),
        ({"output_micros_per_million": 0.5}, 400, "invalid_value", "output_micros_per_million"),
        ({"cached_input_micros_per_million": 400_001}, 400, "invalid_value", "body"),
        ({"base_model": "b", "storage_micros_per_gib_month": 1}, 400, "invalid_value", "body"),
        ({"tenant": "nobody"}, 404, "tenant_not_found", "tenant"),
        ({"until": "2030-01-01T00:00:00Z"}, 400, "unknown_parameter", "until"),
    ],
)
def test_a_price_that_cannot_be_is_refused_by_name(
    changes: dict[str, Any],
    status: int,
    code: str,
    field: str,
    gateway: RunningGateway,
    operator_key: str,
    customer: Tenant,
) -> None:
    assert make(gateway, operator_key, tenant=customer.name).status_code == 201
    answer = make(gateway, operator_key, **({"tenant": customer.name} | changes))
    assert answer.status_code == status, answer.text
    assert answer.json()["code"] == code
    if code != "tenant_not_found":
        assert answer.json()["field"] == field


def test_two_prices_of_one_moment_are_a_conflict(
    gateway: RunningGateway, operator_key: str
) -> None:
    moment = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    base = f"base-{uuid4().hex}"
    answers = [
        make(gateway, operator_key, base_model=base, effective_from=moment) for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 409]
    assert answers[1].json()["code"] == "price_exists"
