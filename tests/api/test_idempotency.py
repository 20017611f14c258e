"""Idempotency-Key over HTTP, on routes that make something."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.conftest import Tenant
from tests.api.running import RunningGateway
from tests.api.tenant.owners import files

WEBHOOKS = "/api/v1/webhooks"
NEW = {"url": "https://hooks.example/x"}


@pytest.fixture
def mine(gateway: RunningGateway, customer: Tenant) -> Iterator[httpx.Client]:
    with gateway.client(customer.key) as client:
        yield client


@pytest.fixture
def key() -> dict[str, str]:
    return {"Idempotency-Key": uuid4().hex}


def count(client: httpx.Client) -> int:
    return len(client.get(WEBHOOKS).json()["data"])


def test_sent_again_it_is_answered_again_and_done_once(
    mine: httpx.Client, key: dict[str, str]
) -> None:
    first = mine.post(WEBHOOKS, json=NEW, headers=key)
    again = mine.post(WEBHOOKS, json=NEW, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["content-type"] == first.headers["content-type"]
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert count(mine) == 1


def test_without_a_key_it_is_done_twice(mine: httpx.Client) -> None:
    mine.post(WEBHOOKS, json=NEW)
    mine.post(WEBHOOKS, json=NEW)
    assert count(mine) == 2


@pytest.mark.parametrize(
    ("path", "body"),
    [(WEBHOOKS, NEW | {"description": "other"}), (f"{WEBHOOKS}?x=1", NEW)],
)
def test_another_request_with_the_key_is_422_and_named(
    path: str, body: dict[str, Any], mine: httpx.Client, key: dict[str, str]
) -> None:
    mine.post(WEBHOOKS, json=NEW, headers=key).raise_for_status()
    answer = mine.post(path, json=body, headers=key)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "idempotency_key_reused"
    assert answer.json()["field"] == "Idempotency-Key"
    assert count(mine) == 1


def test_what_was_refused_leaves_the_key_free(mine: httpx.Client, key: dict[str, str]) -> None:
    refused = mine.post(WEBHOOKS, json={"url": "http://hooks.example"}, headers=key)
    assert refused.status_code == 400
    made = mine.post(WEBHOOKS, json=NEW, headers=key)
    assert (made.status_code, "idempotency-replayed" in made.headers) == (201, False)


def test_a_conflict_is_an_outcome_and_stays_one(mine: httpx.Client, key: dict[str, str]) -> None:
    webhook = mine.post(WEBHOOKS, json=NEW).headers["Location"]
    mine.patch(webhook, json={"is_enabled": False}).raise_for_status()
    first = mine.post(f"{webhook}/test", headers=key)
    mine.patch(webhook, json={"is_enabled": True}).raise_for_status()
    again = mine.post(f"{webhook}/test", headers=key)
    assert (first.status_code, again.status_code) == (409, 409)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["content-type"] == "application/problem+json"


def test_of_many_at_once_one_is_done_and_all_are_answered(
    gateway: RunningGateway, customer: Tenant, key: dict[str, str]
) -> None:
    with gateway.client(customer.key) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post(WEBHOOKS, json=NEW, headers=key), range(16)))
        for answer in answers:
            assert answer.status_code in (201, 409), answer.text
            if answer.status_code == 409:
                assert answer.json()["code"] == "idempotent_request_under_way"
                assert answer.headers["Retry-After"] == "1"
        assert len({one.content for one in answers if one.status_code == 201}) == 1
        assert count(client) == 1


def test_a_form_sent_again_is_the_same_request_whatever_its_boundary(
    mine: httpx.Client, key: dict[str, str]
) -> None:
    path = "/api/v1/adapters/parrot/versions"
    first = mine.post(path, files=files("pirate"), headers=key)
    again = mine.post(path, files=files("pirate"), headers=key)
    assert (first.status_code, again.status_code) == (202, 202)  # not 200: it is the first answer
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["Location"] == first.headers["Location"]
    other = mine.post(path, files=files("shout"), headers=key)
    assert other.status_code == 422


def test_a_key_is_the_tenants_own(
    gateway: RunningGateway, mine: httpx.Client, neighbour: Tenant, key: dict[str, str]
) -> None:
    mine.post(WEBHOOKS, json=NEW, headers=key).raise_for_status()
    with gateway.client(neighbour.key) as theirs:
        answer = theirs.post(WEBHOOKS, json=NEW, headers=key)
        assert answer.status_code == 201
        theirs.delete(answer.headers["Location"])


def test_an_answer_is_its_askers_alone(
    mine: httpx.Client, gateway: RunningGateway, key: dict[str, str]
) -> None:
    wanted = {"name": "everything", "scopes": ["tenant.write", "keys.write"]}
    made = mine.post("/api/v1/keys", json=wanted, headers=key)
    assert mine.post("/api/v1/keys", json=wanted, headers=key).json() == made.json()
    less = mine.post("/api/v1/keys", json={"name": "less", "scopes": ["keys.write"]}).json()
    with gateway.client(less["api_key"]) as colleague:
        refused = colleague.post("/api/v1/keys", json=wanted, headers=key)
    assert refused.status_code == 422
    assert made.json()["api_key"] not in refused.text


@pytest.mark.parametrize("bad", ["x" * 256, "two words", ""])
def test_what_is_no_key_is_400(bad: str, mine: httpx.Client) -> None:
    answer = mine.post(WEBHOOKS, json=NEW, headers={"Idempotency-Key": bad})
    assert (answer.status_code, answer.json()["field"]) == (400, "Idempotency-Key")
    assert count(mine) == 0


def test_without_a_good_credential_no_key_is_claimed(
    gateway: RunningGateway, mine: httpx.Client, key: dict[str, str]
) -> None:
    with gateway.client() as nobody:
        assert nobody.post(WEBHOOKS, json=NEW, headers=key).status_code == 401
    assert mine.post(WEBHOOKS, json=NEW, headers=key).status_code == 201
