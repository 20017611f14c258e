"""Tenants' keys over HTTP: what they may be given, how they change, and how they end."""

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select, update

from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.keys import KeyKind, new_key
from loraplex.platform.tenancy.models import ApiKey
from loraplex.platform.tenancy.scopes import SCOPES_OF, Role
from loraplex.platform.webhooks.models import WebhookEvent
from tests.api.conftest import Tenant, in_system
from tests.api.running import RunningGateway
from tests.api.test_access import CLASSES, TENANT, code_of, path_of

DEVELOPER = sorted(SCOPES_OF[Role.DEVELOPER])
READ_OPENLY = ("GET", "/api/v1/key")


@pytest.fixture
def owner(gateway: RunningGateway, customer: Tenant) -> Iterator[httpx.Client]:
    with gateway.client(customer.key) as client:
        yield client


def made(client: httpx.Client, **wanted: Any) -> dict[str, Any]:
    """A key that may be had."""
    answer = client.post("/api/v1/keys", json={"name": "ci", "scopes": ["models.call"]} | wanted)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def refusal(client: httpx.Client, **wanted: Any) -> dict[str, Any]:
    """Why a key may not be had."""
    answer = client.post("/api/v1/keys", json={"name": "ci", "scopes": ["models.call"]} | wanted)
    assert answer.status_code >= 400, answer.text
    body: dict[str, Any] = answer.json()
    return body | {"status": answer.status_code}


def soon(**later: float) -> str:
    return (datetime.now(UTC) + timedelta(**later)).isoformat()


def status_with(gateway: RunningGateway, key: str, path: str = "/v1/models") -> int:
    with gateway.client(key) as client:
        return client.get(path).status_code


def test_a_key_is_shown_once_and_listed_without_its_text(
    gateway: RunningGateway, owner: httpx.Client
) -> None:
    new = made(
        owner, name="batch", scopes=["models.call", "adapters.read"], expires_at=soon(days=1)
    )
    text = new.pop("api_key")
    assert status_with(gateway, text) == 200
    listed = owner.get("/api/v1/keys")
    assert listed.json()["data"][-1] == new
    assert owner.get(f"/api/v1/keys/{new['id']}").json() == new
    assert text not in listed.text
    assert new["scopes"] == ["adapters.read", "models.call"]
    assert (new["models"], new["state"], new["member_id"]) == (["*"], "live", None)
    assert new["label"].startswith(text[:8])


def test_a_key_says_what_it_is_and_may(gateway: RunningGateway, owner: httpx.Client) -> None:
    ends_at = soon(days=2)
    new = made(owner, scopes=["usage.read"], models=["support"], expires_at=ends_at)
    with gateway.client(new["api_key"]) as client:
        told = client.get("/api/v1/key").json()
    assert told["id"] == new["id"]
    assert (told["kind"], told["role"], told["scopes"]) == ("key", "owner", ["usage.read"])
    assert told["models"] == ["support"]
    assert datetime.fromisoformat(told["expires_at"]) == datetime.fromisoformat(ends_at)


def test_every_route_asks_for_a_scope_of_its_own_or_for_none(
    gateway: RunningGateway, owner: httpx.Client
) -> None:
    few = made(owner, scopes=["tenant.write"])["api_key"]
    routes = [place for place, kind in CLASSES.items() if kind == TENANT and place != READ_OPENLY]
    with gateway.client(few) as client:
        for method, template in routes:
            answer = client.request(method, path := path_of(template))
            assert (answer.status_code, code_of(path, answer)) == (403, "missing_scope"), path


def test_a_missing_scope_is_named(gateway: RunningGateway, owner: httpx.Client) -> None:
    with gateway.client(made(owner)["api_key"]) as client:
        refused = client.get("/api/v1/keys").json()
    assert (refused["code"], refused["value"]) == ("missing_scope", "keys.read")


def test_a_developer_cannot_give_a_key_more_than_it_has(
    gateway: RunningGateway, owner: httpx.Client
) -> None:
    developer = made(owner, scopes=DEVELOPER, models=["support"], expires_at=soon(days=1))
    with gateway.client(developer["api_key"]) as client:
        for scope in SCOPES_OF[Role.OWNER] - SCOPES_OF[Role.DEVELOPER]:
            refused = refusal(client, scopes=[scope], models=["support"])
            assert (refused["status"], refused["code"]) == (403, "exceeds_creator")
            assert (refused["field"], refused["value"]) == ("scopes", scope)
        assert refusal(client, models=["support", "other"])["field"] == "models"
        assert refusal(client, models=["*"])["field"] == "models"
        assert refusal(client, models=["support"], expires_at=soon(days=2))["field"] == "expires_at"
        child = made(client, scopes=DEVELOPER, models=["support"])
        assert child["expires_at"] == developer["expires_at"]
        assert made(client, models=["support"], expires_at=soon(hours=1))["scopes"] == [
            "models.call"
        ]


def test_a_developer_cannot_take_over_a_key_that_may_more(
    gateway: RunningGateway, owner: httpx.Client
) -> None:
    developer = made(owner, scopes=DEVELOPER, models=["support"])
    admins = made(owner, scopes=sorted(SCOPES_OF[Role.ADMIN]), models=["support"])
    everywhere = made(owner, scopes=["models.call"])
    with gateway.client(developer["api_key"]) as client:
        for target in (admins, everywhere):
            path = f"/api/v1/keys/{target['id']}"
            refused = [
                client.post(f"{path}/rotate"),
                client.patch(path, json={"is_disabled": True}),
                client.delete(path),
            ]
            assert [one.status_code for one in refused] == [403] * 3
            assert {one.json()["code"] for one in refused} == {"key_not_yours"}
        own = f"/api/v1/keys/{developer['id']}"
        assert client.patch(own, json={"models": ["*"]}).json()["code"] == "exceeds_creator"


def test_a_rotated_key_lives_on_beside_its_successor_for_a_while(
    gateway: RunningGateway, owner: httpx.Client
) -> None:
    old = made(owner, name="batch", scopes=["models.call"], models=["support"])
    answer = owner.post(f"/api/v1/keys/{old['id']}/rotate", json={"overlap_seconds": 3600})
    assert answer.status_code == 201
    new = answer.json()
    assert answer.headers["location"] == f"/api/v1/keys/{new['id']}"
    for what in ("name", "scopes", "models", "role", "expires_at"):
        assert new[what] == old[what]
    assert new["api_key"] != old["api_key"]
    assert [status_with(gateway, one["api_key"]) for one in (old, new)] == [200, 200]
    shown = owner.get(f"/api/v1/keys/{old['id']}").json()
    assert shown["replaced_by"] == new["id"]
    left = datetime.fromisoformat(shown["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=58) < left <= timedelta(hours=1)
    again = owner.post(f"/api/v1/keys/{old['id']}/rotate")
    assert (again.status_code, again.json()["value"]) == (409, "replaced")


def test_without_an_overlap_the_old_key_ends_at_once(
    gateway: RunningGateway, owner: httpx.Client
) -> None:
    old = made(owner)
    assert status_with(gateway, old["api_key"]) == 200
    new = owner.post(f"/api/v1/keys/{old['id']}/rotate", json={"overlap_seconds": 0}).json()
    assert [status_with(gateway, one["api_key"]) for one in (old, new)] == [401, 200]


def test_a_key_that_ends_sooner_than_the_overlap_ends_then(owner: httpx.Client) -> None:
    old = made(owner, expires_at=soon(hours=1))
    owner.post(f"/api/v1/keys/{old['id']}/rotate", json={"overlap_seconds": 86400})
    assert owner.get(f"/api/v1/keys/{old['id']}").json()["expires_at"] == old["expires_at"]


def test_a_disabled_key_is_told_so_and_can_be_enabled(
    gateway: RunningGateway, owner: httpx.Client
) -> None:
    key = made(owner)
    path = f"/api/v1/keys/{key['id']}"
    assert status_with(gateway, key["api_key"]) == 200
    assert owner.patch(path, json={"is_disabled": True}).json()["state"] == "disabled"
    with gateway.client(key["api_key"]) as client:
        refused = client.get("/v1/models")
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "invalid_api_key"
    assert "is disabled" in refused.json()["error"]["message"]
    assert owner.post(f"{path}/rotate").status_code == 409
    assert owner.patch(path, json={"is_disabled": False}).json()["disabled_at"] is None
    assert status_with(gateway, key["api_key"]) == 200


def test_a_revoked_key_is_as_one_that_never_was(
    gateway: RunningGateway, owner: httpx.Client
) -> None:
    key = made(owner)
    assert status_with(gateway, key["api_key"]) == 200
    for _ in range(2):
        assert owner.delete(f"/api/v1/keys/{key['id']}").status_code == 204
    answers = []
    for text in (key["api_key"], new_key(KeyKind.TENANT)):
        with gateway.client(text) as client:
            answers.append(client.get("/v1/models"))
    assert [answer.status_code for answer in answers] == [401, 401]
    assert answers[0].json() == answers[1].json()
    shown = owner.get(f"/api/v1/keys/{key['id']}").json()
    assert shown["state"] == "revoked"
    changed = owner.patch(f"/api/v1/keys/{key['id']}", json={"name": "other"})
    assert (changed.status_code, changed.json()["code"]) == (409, "key_not_live")


def test_an_expired_key_is_told_so(
    gateway: RunningGateway, owner: httpx.Client, gateway_settings: Settings
) -> None:
    key = made(owner, expires_at=soon(days=1))
    assert status_with(gateway, key["api_key"]) == 200

    async def expire(session: Any) -> None:
        mine = update(ApiKey).where(ApiKey.id == key["id"])
        await session.execute(mine.values(expires_at=datetime.now(UTC)))

    asyncio.run(in_system(gateway_settings, expire))
    with gateway.client(key["api_key"]) as client:
        answers = [client.get("/v1/models") for _ in range(2)]
    assert answers[-1].status_code == 401
    assert "has expired" in answers[-1].json()["error"]["message"]


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["everything"]}, "scopes[0]"),
        ({"scopes": "models.call"}, "scopes"),
        ({"models": []}, "models"),
        ({"models": ["*", "support"]}, "models[0]"),
        ({"models": ["support:prod"]}, "models[0]"),
        ({"models": ["else/support"]}, "models[0]"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2099-01-01T00:00:00"}, "expires_at"),
        ({"expires_at": 4102444800}, "expires_at"),
        ({"name": ""}, "name"),
        ({"name": "a\u0000b"}, "name"),
        ({"name": "a\tb"}, "name"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_no_key_can_be_is_refused_by_its_field(
    wanted: dict[str, Any], field: str, owner: httpx.Client
) -> None:
    refused = refusal(owner, **wanted)
    assert (refused["status"], refused["field"]) == (400, field)


@pytest.mark.parametrize("overlap", [-1, 604801, 1.5, "60"])
def test_an_overlap_is_at_most_seven_days(overlap: Any, owner: httpx.Client) -> None:
    path = f"/api/v1/keys/{made(owner)['id']}/rotate"
    assert owner.post(path, json={"overlap_seconds": overlap}).status_code == 400


def test_a_neighbours_key_does_not_exist(
    gateway: RunningGateway, owner: httpx.Client, neighbour: Tenant
) -> None:
    path = f"/api/v1/keys/{made(owner)['id']}"
    with gateway.client(neighbour.key) as client:
        answers = [
            client.get(path),
            client.patch(path, json={"name": "mine"}),
            client.post(f"{path}/rotate"),
            client.delete(path),
            client.get(f"/api/v1/keys/{uuid4()}"),
        ]
        listed = client.get("/api/v1/keys").json()["data"]
    assert [(one.status_code, one.json()["code"]) for one in answers] == [
        (404, "key_not_found")
    ] * 5
    assert path.rpartition("/")[2] not in {one["id"] for one in listed}
    assert owner.get(path).json()["state"] == "live"


def test_a_sessions_cookie_may_what_its_key_may(
    gateway: RunningGateway, owner: httpx.Client
) -> None:
    few = made(owner, scopes=["keys.read"])
    with gateway.client() as browser:
        assert browser.post("/api/v1/session", json={"api_key": few["api_key"]}).status_code == 200
        assert browser.get("/api/v1/keys").status_code == 200
        assert browser.get("/api/v1/adapters").json()["code"] == "missing_scope"
        assert owner.delete(f"/api/v1/keys/{few['id']}").status_code == 204
        assert browser.get("/api/v1/keys").json()["code"] == "invalid_session"


def test_each_change_is_audited_and_told_to_webhooks(
    owner: httpx.Client, gateway_settings: Settings
) -> None:
    key = made(owner, name="batch")
    path = f"/api/v1/keys/{key['id']}"
    owner.patch(path, json={"name": "nightly"})
    owner.patch(path, json={"is_disabled": True})
    owner.patch(path, json={"is_disabled": False})
    owner.patch(path, json={"is_disabled": False})
    new = owner.post(f"{path}/rotate").json()
    owner.delete(path)

    async def told(session: Any) -> tuple[list[AuditEvent], list[WebhookEvent]]:
        about = AuditEvent.target_id == key["id"]
        audit = await session.scalars(
            select(AuditEvent).where(about).order_by(AuditEvent.created_at)
        )
        about = WebhookEvent.data["key_id"].astext == key["id"]
        events = await session.scalars(select(WebhookEvent).where(about))
        return audit.all(), events.all()

    audit, events = asyncio.run(in_system(gateway_settings, told))
    verbs = ["created", "changed", "disabled", "enabled", "rotated", "revoked"]
    assert [one.action for one in audit] == [f"api_key.{verb}" for verb in verbs]
    assert {one.type for one in events} == {f"key.{verb}" for verb in verbs} - {"key.changed"}
    assert audit[1].before is not None
    assert audit[1].after is not None
    assert (audit[1].before["name"], audit[1].after["name"]) == ("batch", "nightly")
    secrets = (key["api_key"], new["api_key"])
    told_text = repr([(one.before, one.after) for one in audit]) + repr(
        [one.data for one in events]
    )
    assert not any(secret in told_text for secret in secrets)


def test_no_key_is_echoed_or_logged(
    gateway: RunningGateway, owner: httpx.Client, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    key = made(owner)
    text = key["api_key"]
    owner.post("/api/v1/keys", json={"name": text, "scopes": [text], text: text})
    owner.post("/api/v1/session", json={"api_key": [text]})
    owner.delete(f"/api/v1/keys/{key['id']}")
    bodies = []
    with gateway.client(text) as client:
        bodies += [client.get(path).text for path in ("/v1/models", "/api/v1/key")]
        bodies.append(client.post("/v1/completions", json={"model": text, "prompt": text}).text)
    with gateway.client() as client:
        bodies.append(client.get("/v1/models", headers={"Authorization": f"Basic {text}"}).text)
        bodies.append(client.post("/api/v1/session", json={"api_key": text}).text)
        bodies.append(client.post("/api/v1/session", json={"api_key": text + "é"}).text)
    out, err = capfd.readouterr()
    ours = [one for one in caplog.records if not one.name.startswith(("httpx", "httpcore"))]
    logged = out + err + "".join(str(one.__dict__) for one in ours)
    assert text not in "".join(bodies)
    assert text[4:] not in logged
