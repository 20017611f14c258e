"""Limits over HTTP: what clients are told of them, and who may set them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select, update

from loraplex.platform.admission.models import Reservation
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.models import ApiKey
from loraplex.platform.tenancy.models import Tenant as TenantRow
from tests.api.conftest import Tenant, in_system, new_tenant
from tests.api.running import RunningGateway

ADMIN = "/api/v1/admin/tenants"


@contextmanager
def operators(gateway: RunningGateway, operator_key: str) -> Iterator[httpx.Client]:
    with gateway.client(operator_key) as client:
        yield client


def limit(gateway: RunningGateway, operator_key: str, tenant: Tenant, **limits: int) -> None:
    with gateway.client(operator_key) as client:
        client.put(f"{ADMIN}/{tenant.name}/limits", json=limits).raise_for_status()


def complete(
    gateway: RunningGateway, key: str, prompt_tokens: int = 3, max_tokens: int = 2, **more: Any
) -> httpx.Response:
    body = {"model": "smollm2-135m-instruct", "prompt": [9] * prompt_tokens}
    with gateway.client(key) as client:
        return client.post("/v1/completions", json={**body, "max_tokens": max_tokens, **more})


def key_id(settings: Settings, tenant: Tenant) -> UUID:
    async def find(session: Any) -> UUID:
        mine = select(ApiKey.id).join(TenantRow, TenantRow.id == ApiKey.tenant_id)
        found: UUID = (await session.scalars(mine.where(TenantRow.name == tenant.name))).one()
        return found

    found: UUID = asyncio.run(in_system(settings, find))
    return found


def held(settings: Settings, tenant: Tenant) -> int:
    async def count(session: Any) -> int:
        mine = select(Reservation).join(TenantRow, TenantRow.id == Reservation.tenant_id)
        rows = await session.scalars(mine.where(TenantRow.name == tenant.name))
        return len(rows.all())

    found: int = asyncio.run(in_system(settings, count))
    return found


def test_the_headers_of_an_answer_tell_what_is_left(
    gateway: RunningGateway, customer: Tenant, operator_key: str
) -> None:
    limit(gateway, operator_key, customer, requests_per_minute=2, tokens_per_minute=1000)
    for stream in (False, True):
        headers = complete(gateway, customer.key, stream=stream).headers
        assert headers["x-ratelimit-limit-requests"] == "2"
        assert headers["x-ratelimit-limit-tokens"] == "1000"
        assert headers["x-ratelimit-reset-tokens"] == "1m1s"
    assert headers["x-ratelimit-remaining-requests"] == "0"
    refused = complete(gateway, customer.key)
    assert refused.status_code == 429
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert 1 <= int(refused.headers["Retry-After"]) <= 61
    error = refused.json()["error"]
    assert (error["code"], error["param"]) == ("rate_limit_exceeded", "tenant")
    assert error["message"] == "This tenant may use 2 requests a minute; 2 are used."


def test_ninety_five_of_a_hundred_tokens_pass_once_in_the_minute(
    gateway: RunningGateway, gateway_settings: Settings, operator_key: str
) -> None:
    for stream in (False, True):
        small = new_tenant(gateway_settings)
        limit(gateway, operator_key, small, tokens_per_minute=100)
        body = {"ignore_eos": True, "stream": stream}
        assert complete(gateway, small.key, 90, 5, **body).status_code == 200
        assert complete(gateway, small.key, 90, 5, **body).status_code == 429


def test_a_request_that_no_minute_could_hold_is_400(
    gateway: RunningGateway, customer: Tenant, operator_key: str
) -> None:
    limit(gateway, operator_key, customer, tokens_per_minute=100)
    answer = complete(gateway, customer.key, 90, 11)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "request_exceeds_limit"
    assert "Retry-After" not in answer.headers


def test_every_choice_counts_and_a_prompt_once(
    gateway: RunningGateway, customer: Tenant, operator_key: str
) -> None:
    limit(gateway, operator_key, customer, prompt_tokens_per_minute=10, output_tokens_per_minute=9)
    assert complete(gateway, customer.key, 10, 3, n=3, ignore_eos=True).status_code == 200
    used = complete(gateway, customer.key, 1, 1)
    assert used.headers["x-ratelimit-remaining-prompt-tokens"] == "0"
    assert used.headers["x-ratelimit-remaining-output-tokens"] == "0"


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1", "true", '"7"', "1.5", "1e400", "[]"])
def test_a_limit_is_a_whole_number_from_zero(
    value: str, gateway: RunningGateway, customer: Tenant, operator_key: str
) -> None:
    for name in ("requests_per_minute", "max_storage_bytes"):
        with operators(gateway, operator_key) as client:
            answer = client.put(f"{ADMIN}/{customer.name}/limits", content=f'{{"{name}": {value}}}')
        assert answer.status_code == 400
        assert answer.json()["field"] == name
    with operators(gateway, operator_key) as client:
        answer = client.put(f"{ADMIN}/{customer.name}/limits", json={"requests": 5})
    assert answer.status_code == 400


def test_operators_set_limits_and_budgets_of_tenants_and_models(
    gateway: RunningGateway, customer: Tenant, operator_key: str
) -> None:
    with operators(gateway, operator_key) as client:
        path = f"{ADMIN}/{customer.name}"
        limits = client.get(f"{path}/limits").json()
        assert limits["max_concurrent_requests"] == 64
        changed = limits | {"requests_per_minute": 10, "max_adapters": 3}
        assert client.put(f"{path}/limits", json=changed).json() == changed
        budgets = {
            "daily_budget_micros": 5,
            "monthly_budget_micros": 50,
            "soft_budget_percent": 90,
        }
        assert client.put(f"{path}/budgets", json=budgets).json() == budgets
        assert client.get(f"{path}/budgets").json() == budgets
        assert client.get(f"{path}/limits").json() == changed
        own = {"requests_per_minute": 1}
        base = "smollm2-135m-instruct"
        assert client.put(f"{path}/models/{base}/limits", json=own).status_code == 200
        assert client.put(f"{path}/models/nobodys/limits", json=own).status_code == 404
        in_use = client.get(f"{path}/limits-in-use").json()["data"]
        assert [(one["subject"], one["id"]) for one in in_use] == [
            ("model", base),
            ("tenant", None),
        ]
        assert client.get(f"{ADMIN}/no-such-tenant/limits").status_code == 404
    assert complete(gateway, customer.key).status_code == 200
    assert complete(gateway, customer.key).json()["error"]["param"] == "model"


def test_an_owner_limits_a_key_within_the_tenants_limits(
    gateway: RunningGateway,
    gateway_settings: Settings,
    customer: Tenant,
    neighbour: Tenant,
    operator_key: str,
) -> None:
    limit(gateway, operator_key, customer, requests_per_minute=10)
    path = f"/api/v1/keys/{key_id(gateway_settings, customer)}/limits"
    with gateway.client(customer.key) as client:
        above = client.put(path, json={"requests_per_minute": 11})
        assert (above.status_code, above.json()["code"]) == (400, "limit_above_tenants")
        set_to = client.put(path, json={"requests_per_minute": 1, "daily_budget_micros": 100})
        assert set_to.status_code == 200
        assert client.put(f"/api/v1/keys/{uuid4()}/limits", json={}).status_code == 404
        assert client.put(f"/api/v1/members/{uuid4()}/limits", json={}).status_code == 404
    assert complete(gateway, customer.key).status_code == 200
    assert complete(gateway, customer.key).json()["error"]["param"] == "key"
    with gateway.client(customer.key) as client:
        [keys, tenants] = client.get("/api/v1/limits").json()["data"]
    assert (keys["effective"]["requests_per_minute"], keys["in_use"]["requests"]) == (1, 1)
    assert (tenants["limits"]["requests_per_minute"], tenants["quotas"]["max_adapters"]) == (
        10,
        None,
    )
    with gateway.client(neighbour.key) as client:
        assert client.put(path, json={}).status_code == 404


def test_a_developer_cannot_raise_its_own_limits(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant
) -> None:
    with gateway.client(customer.key) as client:
        path = f"/api/v1/keys/{key_id(gateway_settings, customer)}/limits"
        assert client.put(path, json={"requests_per_minute": 1}).status_code == 200
    developer = new_key(gateway_settings, customer, "developer")
    with gateway.client(developer) as client:
        answer = client.put(path, json={"requests_per_minute": 100})
        assert (answer.status_code, answer.json()["code"]) == (403, "missing_scope")
        assert client.get("/api/v1/limits").status_code == 200


def test_what_fails_and_what_is_cancelled_leaves_nothing_reserved(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant
) -> None:
    assert complete(gateway, customer.key, stop=["x"] * 99).status_code == 400
    assert complete(gateway, customer.key).status_code == 200
    assert held(gateway_settings, customer) == 0


def new_key(settings: Settings, tenant: Tenant, role: str) -> str:
    """A key of this role."""
    administration = TenantAdministration(SecretKeys.from_settings(settings))

    async def create(session: Any) -> str:
        row = await administration.find_tenant(session, tenant.name)
        made, key = await administration.create_key(session, row, "test")
        await session.execute(update(ApiKey).where(ApiKey.id == made.id).values(role=role))
        return key

    key: str = asyncio.run(in_system(settings, create))
    return key
