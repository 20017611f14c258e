"""Operators' keys over HTTP, and tenants' keys in operators' hands."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant, in_system
from tests.api.running import RunningGateway
from tests.api.test_access import CLASSES, OPERATOR, path_of

KEYS = "/api/v1/admin/operator-keys"


@pytest.fixture
def admin(gateway: RunningGateway, operator_key: str) -> Iterator[httpx.Client]:
    with gateway.client(operator_key) as client:
        yield client


def made(client: httpx.Client, **wanted: Any) -> dict[str, Any]:
    answer = client.post(KEYS, json={"name": "oncall"} | wanted)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def status_with(gateway: RunningGateway, key: str) -> int:
    with gateway.client(key) as client:
        return client.get("/api/v1/admin/tenants").status_code


def test_an_admin_viewer_sees_everything_and_changes_nothing(
    gateway: RunningGateway, admin: httpx.Client
) -> None:
    viewer = made(admin, role="admin_viewer")
    with gateway.client(viewer["api_key"]) as client:
        for method, template in (place for place, kind in CLASSES.items() if kind == OPERATOR):
            answer = client.request(method, path_of(template))
            is_refused = answer.status_code == 403 and answer.json()["code"] == "wrong_role"
            assert is_refused == (method != "GET"), (method, template, answer.text)


def test_an_operators_key_is_shown_once_rotated_disabled_and_revoked(
    gateway: RunningGateway, admin: httpx.Client
) -> None:
    key = made(admin, role="admin_viewer")
    path, text = f"{KEYS}/{key['id']}", key.pop("api_key")
    assert admin.get(path).json() == key
    assert text not in admin.get(KEYS, params={"limit": 200}).text
    assert status_with(gateway, text) == 200
    assert admin.patch(path, json={"is_disabled": True}).json()["state"] == "disabled"
    assert status_with(gateway, text) == 401
    assert admin.patch(path, json={"is_disabled": False, "name": "night"}).json()["name"] == "night"
    new = admin.post(f"{path}/rotate", json={"overlap_seconds": 60}).json()
    assert (new["role"], new["name"]) == ("admin_viewer", "night")
    assert [status_with(gateway, one) for one in (text, new["api_key"])] == [200, 200]
    assert admin.delete(path).status_code == 204
    assert [status_with(gateway, one) for one in (text, new["api_key"])] == [401, 200]
    assert admin.delete(f"{KEYS}/{new['id']}").status_code == 204


def test_no_operators_key_outlives_the_one_that_makes_it(
    gateway: RunningGateway, admin: httpx.Client
) -> None:
    ends_at = datetime.now(UTC) + timedelta(days=1)
    short = made(admin, expires_at=ends_at.isoformat())
    with gateway.client(short["api_key"]) as client:
        later = (ends_at + timedelta(days=1)).isoformat()
        refused = client.post(KEYS, json={"name": "longer", "expires_at": later})
        assert (refused.status_code, refused.json()["code"]) == (403, "exceeds_creator")
        assert made(client)["expires_at"] == short["expires_at"]


def test_an_operator_makes_a_tenants_first_key_and_ends_it(
    gateway: RunningGateway, admin: httpx.Client, customer: Tenant
) -> None:
    path = f"/api/v1/admin/tenants/{customer.name}/keys"
    answer = admin.post(path, json={"name": "first", "scopes": ["models.call"]})
    assert answer.status_code == 201, answer.text
    key = answer.json()
    with gateway.client(key["api_key"]) as client:
        assert client.get("/api/v1/key").json()["tenant"] == customer.name
        listed = admin.get(path).json()["data"]
        assert [one["name"] for one in listed] == ["test", "first"]
        assert admin.delete(f"{path}/{key['id']}").status_code == 204
        assert client.get("/api/v1/key").status_code == 401
    missing = admin.post(
        "/api/v1/admin/tenants/no-such/keys", json={"name": "a", "scopes": ["models.call"]}
    )
    assert (missing.status_code, missing.json()["code"]) == (404, "tenant_not_found")


def test_what_is_done_to_operators_keys_is_audited(
    admin: httpx.Client, gateway_settings: Settings
) -> None:
    key = made(admin)
    admin.delete(f"{KEYS}/{key['id']}")

    async def lines(session: Any) -> list[AuditEvent]:
        about = select(AuditEvent).where(AuditEvent.target_id == key["id"])
        return [*await session.scalars(about.order_by(AuditEvent.created_at))]

    audit = asyncio.run(in_system(gateway_settings, lines))
    assert [one.action for one in audit] == ["operator_key.created", "operator_key.revoked"]
    assert {one.actor_kind for one in audit} == {"operator"}
    assert key["api_key"] not in repr([(one.before, one.after) for one in audit])
