import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import func, update

from loraplex.api.tenant.webhook_schemas import Delivery, Webhook, WebhookWithSecret
from loraplex.platform.settings import Settings
from loraplex.platform.webhooks.models import WebhookDelivery
from tests.api.conftest import Tenant, in_system
from tests.api.running import RunningGateway

WEBHOOKS = "/api/v1/webhooks"
NEW = {"url": "https://hooks.example/x", "event_types": ["alias.moved"]}


@pytest.fixture
def mine(gateway: RunningGateway, customer: Tenant) -> Iterator[httpx.Client]:
    with gateway.client(customer.key) as client:
        yield client


@pytest.fixture
def created(mine: httpx.Client) -> WebhookWithSecret:
    answer = mine.post(WEBHOOKS, json=NEW)
    assert answer.status_code == 201, answer.text
    made = WebhookWithSecret.model_validate_json(answer.content)
    assert answer.headers["Location"] == f"{WEBHOOKS}/{made.id}"
    return made


def test_the_secret_is_shown_once(mine: httpx.Client, created: WebhookWithSecret) -> None:
    assert created.secret.startswith("whsec_")
    shown = mine.get(f"{WEBHOOKS}/{created.id}")
    assert Webhook.model_validate_json(shown.content).event_types == ["alias.moved"]
    listed = mine.get(WEBHOOKS)
    assert listed.json() == {"data": [shown.json()], "next_cursor": None}
    changed = mine.patch(f"{WEBHOOKS}/{created.id}", json={"description": "x"})
    assert changed.json()["description"] == "x"
    for answer in (shown, listed, changed):
        assert "secret" not in answer.text.replace("previous_secret_expires_at", "")


def test_a_new_secret_is_another_one(mine: httpx.Client, created: WebhookWithSecret) -> None:
    rotate = f"{WEBHOOKS}/{created.id}/rotate-secret"
    rotated = mine.post(rotate, json={"overlap_seconds": 60}).json()
    assert rotated["secret"] != created.secret
    assert rotated["previous_secret_expires_at"] is not None
    at_once = mine.post(rotate, json={"overlap_seconds": 0}).json()
    assert at_once["previous_secret_expires_at"] is None
    assert mine.post(rotate).status_code == 200


def test_a_test_is_a_delivery_like_any_other(
    mine: httpx.Client, created: WebhookWithSecret, gateway_settings: Settings
) -> None:
    sent = mine.post(f"{WEBHOOKS}/{created.id}/test")
    assert sent.status_code == 202
    delivery = Delivery.model_validate_json(sent.content)
    assert (delivery.event_type, delivery.status) == ("webhook.test", "pending")
    assert delivery.message_id.startswith("msg_")
    assert delivery.attempts == []
    assert mine.get(sent.headers["Location"]).json() == sent.json()
    listed = mine.get(f"{WEBHOOKS}/{created.id}/deliveries").json()
    assert listed == {"data": [sent.json()], "next_cursor": None}
    retry = f"{sent.headers['Location']}/retry"
    under_way = mine.post(retry)
    assert (under_way.status_code, under_way.json()["code"]) == (409, "delivery_under_way")

    async def give_up(session: Any) -> None:
        await session.execute(
            update(WebhookDelivery)
            .where(WebhookDelivery.id == delivery.id)
            .values(status="failed", finished_at=func.now())
        )

    asyncio.run(in_system(gateway_settings, give_up))
    again = mine.post(retry)
    assert (again.status_code, again.json()["status"]) == (202, "pending")
    assert again.json()["message_id"] == delivery.message_id


def test_disabling_and_enabling(mine: httpx.Client, created: WebhookWithSecret) -> None:
    path = f"{WEBHOOKS}/{created.id}"
    off = mine.patch(path, json={"is_enabled": False}).json()
    assert (off["is_enabled"], off["disabled_reason"]) == (False, "tenant")
    refused = mine.post(f"{path}/test")
    assert (refused.status_code, refused.json()["code"]) == (409, "webhook_disabled")
    on = mine.patch(path, json={"is_enabled": True}).json()
    assert (on["is_enabled"], on["disabled_reason"], on["disabled_at"]) == (True, None, None)


def test_a_deleted_webhook_is_gone(mine: httpx.Client, created: WebhookWithSecret) -> None:
    path = f"{WEBHOOKS}/{created.id}"
    gone = mine.delete(path)
    assert (gone.status_code, gone.content) == (204, b"")
    assert mine.get(path).json()["code"] == "webhook_not_found"
    assert mine.delete(path).status_code == 404


def test_a_neighbours_webhook_is_404(
    created: WebhookWithSecret, mine: httpx.Client, gateway: RunningGateway, neighbour: Tenant
) -> None:
    sent = mine.post(f"{WEBHOOKS}/{created.id}/test").json()
    with gateway.client(neighbour.key) as theirs:
        for method, path, body in [
            ("GET", "", None),
            ("PATCH", "", {"description": "stolen"}),
            ("DELETE", "", None),
            ("POST", "/test", None),
            ("POST", "/rotate-secret", {}),
            ("GET", "/deliveries", None),
            ("GET", f"/deliveries/{sent['id']}", None),
            ("POST", f"/deliveries/{sent['id']}/retry", None),
        ]:
            answer = theirs.request(method, f"{WEBHOOKS}/{created.id}{path}", json=body)
            assert answer.status_code == 404, path
            assert answer.json()["code"] in ("webhook_not_found", "delivery_not_found")
        assert theirs.get(WEBHOOKS).json()["data"] == []
    assert mine.get(f"{WEBHOOKS}/{created.id}").json()["description"] == ""


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": ""}, "url"),
        ({"url": "http://hooks.example"}, "url"),
        ({"url": "https://10.0.0.1/"}, "url"),
        ({"url": "https://hooks.example", "event_types": ["adapter.exploded"]}, "event_types[0]"),
        ({"url": "https://hooks.example", "event_types": "all"}, "event_types"),
        ({"url": "https://hooks.example", "secret": "mine"}, "secret"),
    ],
)
def test_a_bad_webhook_is_400_and_named(
    body: dict[str, Any], field: str, mine: httpx.Client
) -> None:
    answer = mine.post(WEBHOOKS, json=body)
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["field"] == field


def test_an_id_that_is_none_is_400_and_one_that_never_was_404(mine: httpx.Client) -> None:
    assert mine.get(f"{WEBHOOKS}/x").json()["field"] == "webhook"
    assert mine.get(f"{WEBHOOKS}/{uuid4()}").status_code == 404
