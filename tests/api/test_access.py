"""Who may ask what: every route has a class here, and each class its refusals."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from loraplex.api.gateway import create_app
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway

TENANT, OPERATOR, EITHER, ANYBODY = "tenant", "operator", "either", "anybody"
PERSON = "person"
"""Somebody who signed in as themselves; no key will do."""

CLASSES = {
    ("GET", "/v1/models"): TENANT,
    ("GET", "/v1/models/{model}"): TENANT,
    ("POST", "/v1/chat/completions"): TENANT,
    ("POST", "/v1/completions"): TENANT,
    ("GET", "/api/v1/key"): TENANT,
    ("GET", "/api/v1/keys"): TENANT,
    ("POST", "/api/v1/keys"): TENANT,
    ("GET", "/api/v1/keys/{key}"): TENANT,
    ("PATCH", "/api/v1/keys/{key}"): TENANT,
    ("POST", "/api/v1/keys/{key}/rotate"): TENANT,
    ("DELETE", "/api/v1/keys/{key}"): TENANT,
    ("GET", "/api/v1/admin/operator-keys"): OPERATOR,
    ("POST", "/api/v1/admin/operator-keys"): OPERATOR,
    ("GET", "/api/v1/admin/operator-keys/{key}"): OPERATOR,
    ("PATCH", "/api/v1/admin/operator-keys/{key}"): OPERATOR,
    ("POST", "/api/v1/admin/operator-keys/{key}/rotate"): OPERATOR,
    ("DELETE", "/api/v1/admin/operator-keys/{key}"): OPERATOR,
    ("GET", "/api/v1/admin/tenants/{tenant}/keys"): OPERATOR,
    ("POST", "/api/v1/admin/tenants/{tenant}/keys"): OPERATOR,
    ("DELETE", "/api/v1/admin/tenants/{tenant}/keys/{key}"): OPERATOR,
    ("GET", "/api/v1/adapters"): TENANT,
    ("GET", "/api/v1/adapters/{name}"): TENANT,
    ("GET", "/api/v1/adapters/{name}/versions"): TENANT,
    ("POST", "/api/v1/adapters/{name}/versions"): TENANT,
    ("GET", "/api/v1/adapters/{name}/versions/{number}"): TENANT,
    ("GET", "/api/v1/adapters/{name}/pin"): TENANT,
    ("PUT", "/api/v1/adapters/{name}/pin"): TENANT,
    ("DELETE", "/api/v1/adapters/{name}/pin"): TENANT,
    ("POST", "/api/v1/uploads"): TENANT,
    ("GET", "/api/v1/uploads"): TENANT,
    ("GET", "/api/v1/uploads/{upload_id}"): TENANT,
    ("POST", "/api/v1/uploads/{upload_id}/part-urls"): TENANT,
    ("PUT", "/api/v1/uploads/{upload_id}/files/{file}/parts/{part}"): TENANT,
    ("POST", "/api/v1/uploads/{upload_id}/complete"): TENANT,
    ("POST", "/api/v1/uploads/{upload_id}/abort"): TENANT,
    ("GET", "/api/v1/storage"): TENANT,
    ("POST", "/api/v1/imports"): TENANT,
    ("GET", "/api/v1/imports"): TENANT,
    ("GET", "/api/v1/imports/{import_id}"): TENANT,
    ("GET", "/api/v1/adapters/{name}/aliases"): TENANT,
    ("GET", "/api/v1/adapters/{name}/aliases/{alias}"): TENANT,
    ("PUT", "/api/v1/adapters/{name}/aliases/{alias}"): TENANT,
    ("DELETE", "/api/v1/adapters/{name}/aliases/{alias}"): TENANT,
    ("GET", "/api/v1/adapters/{name}/aliases/{alias}/moves"): TENANT,
    ("POST", "/api/v1/adapters/{name}/aliases/{alias}/rollback"): TENANT,
    ("DELETE", "/api/v1/adapters/{name}"): TENANT,
    ("POST", "/api/v1/adapters/{name}/restore"): TENANT,
    ("DELETE", "/api/v1/adapters/{name}/versions/{number}"): TENANT,
    ("POST", "/api/v1/adapters/{name}/versions/{number}/restore"): TENANT,
    ("GET", "/api/v1/adapters/{name}/rollouts"): TENANT,
    ("POST", "/api/v1/adapters/{name}/rollouts"): TENANT,
    ("GET", "/api/v1/adapters/{name}/rollouts/{rollout_id}"): TENANT,
    ("PATCH", "/api/v1/adapters/{name}/rollouts/{rollout_id}"): TENANT,
    ("POST", "/api/v1/adapters/{name}/rollouts/{rollout_id}/pause"): TENANT,
    ("POST", "/api/v1/adapters/{name}/rollouts/{rollout_id}/resume"): TENANT,
    ("POST", "/api/v1/adapters/{name}/rollouts/{rollout_id}/promote"): TENANT,
    ("POST", "/api/v1/adapters/{name}/rollouts/{rollout_id}/roll-back"): TENANT,
    ("POST", "/api/v1/admin/tenants/{tenant}/adapters/{name}/versions/{number}/quarantine"): (
        OPERATOR
    ),
    ("POST", "/api/v1/admin/tenants/{tenant}/adapters/{name}/versions/{number}/release"): OPERATOR,
    ("GET", "/api/v1/webhooks"): TENANT,
    ("POST", "/api/v1/webhooks"): TENANT,
    ("GET", "/api/v1/webhooks/{webhook}"): TENANT,
    ("PATCH", "/api/v1/webhooks/{webhook}"): TENANT,
    ("DELETE", "/api/v1/webhooks/{webhook}"): TENANT,
    ("POST", "/api/v1/webhooks/{webhook}/rotate-secret"): TENANT,
    ("POST", "/api/v1/webhooks/{webhook}/test"): TENANT,
    ("GET", "/api/v1/webhooks/{webhook}/deliveries"): TENANT,
    ("GET", "/api/v1/webhooks/{webhook}/deliveries/{delivery}"): TENANT,
    ("POST", "/api/v1/webhooks/{webhook}/deliveries/{delivery}/retry"): TENANT,
    ("GET", "/api/v1/usage"): TENANT,
    ("GET", "/api/v1/usage/export"): TENANT,
    ("GET", "/api/v1/usage/requests"): TENANT,
    ("GET", "/api/v1/usage/requests/export"): TENANT,
    ("GET", "/api/v1/admin/usage"): OPERATOR,
    ("GET", "/api/v1/admin/prices"): OPERATOR,
    ("POST", "/api/v1/admin/prices"): OPERATOR,
    ("GET", "/api/v1/limits"): TENANT,
    ("PUT", "/api/v1/keys/{key}/limits"): TENANT,
    ("PUT", "/api/v1/members/{member}/limits"): TENANT,
    ("GET", "/api/v1/admin/tenants/{tenant}/limits"): OPERATOR,
    ("PUT", "/api/v1/admin/tenants/{tenant}/limits"): OPERATOR,
    ("GET", "/api/v1/admin/tenants/{tenant}/budgets"): OPERATOR,
    ("PUT", "/api/v1/admin/tenants/{tenant}/budgets"): OPERATOR,
    ("GET", "/api/v1/admin/tenants/{tenant}/limits-in-use"): OPERATOR,
    ("PUT", "/api/v1/admin/tenants/{tenant}/models/{model}/limits"): OPERATOR,
    ("GET", "/api/v1/admin/workers"): OPERATOR,
    ("GET", "/api/v1/admin/tenants"): OPERATOR,
    ("GET", "/api/v1/audit"): TENANT,
    ("GET", "/api/v1/admin/audit"): OPERATOR,
    ("POST", "/api/v1/admin/tenants"): OPERATOR,
    ("GET", "/api/v1/admin/tenants/{tenant}"): OPERATOR,
    ("PATCH", "/api/v1/admin/tenants/{tenant}"): OPERATOR,
    ("DELETE", "/api/v1/admin/tenants/{tenant}"): OPERATOR,
    ("POST", "/api/v1/admin/tenants/{tenant}/suspend"): OPERATOR,
    ("POST", "/api/v1/admin/tenants/{tenant}/resume"): OPERATOR,
    ("GET", "/api/v1/admin/tenants/{tenant}/members"): OPERATOR,
    ("POST", "/api/v1/admin/tenants/{tenant}/members"): OPERATOR,
    ("PATCH", "/api/v1/admin/tenants/{tenant}/members/{member}"): OPERATOR,
    ("DELETE", "/api/v1/admin/tenants/{tenant}/members/{member}"): OPERATOR,
    ("GET", "/api/v1/admin/people"): OPERATOR,
    ("POST", "/api/v1/admin/tenants/{tenant}/exports"): OPERATOR,
    ("GET", "/api/v1/admin/tenants/{tenant}/exports"): OPERATOR,
    ("GET", "/api/v1/admin/tenants/{tenant}/exports/{export}"): OPERATOR,
    ("GET", "/api/v1/admin/tenants/{tenant}/exports/{export}/download"): OPERATOR,
    ("POST", "/api/v1/admin/people"): OPERATOR,
    ("GET", "/api/v1/admin/people/{person}"): OPERATOR,
    ("PATCH", "/api/v1/admin/people/{person}"): OPERATOR,
    ("POST", "/api/v1/admin/people/{person}/reset-password"): OPERATOR,
    ("GET", "/api/v1/admin/slo-classes"): OPERATOR,
    ("PUT", "/api/v1/admin/tenants/{tenant}/slo-class"): OPERATOR,
    ("PUT", "/api/v1/admin/tenants/{tenant}/keys/{key_id}/slo-class"): OPERATOR,
    ("GET", "/api/v1/admin/models"): OPERATOR,
    ("GET", "/api/v1/admin/public-prefixes"): OPERATOR,
    ("GET", "/api/v1/admin/public-prefixes/{prefix}"): OPERATOR,
    ("PUT", "/api/v1/admin/public-prefixes/{prefix}"): OPERATOR,
    ("DELETE", "/api/v1/admin/public-prefixes/{prefix}"): OPERATOR,
    ("GET", "/api/v1/admin/switches"): OPERATOR,
    ("PUT", "/api/v1/admin/switches/{name}"): OPERATOR,
    ("POST", "/api/v1/admin/pools/{pool}/drain"): OPERATOR,
    ("POST", "/api/v1/admin/pools/{pool}/undrain"): OPERATOR,
    ("GET", "/api/v1/session"): EITHER,
    ("GET", "/api/v1/session/methods"): ANYBODY,
    ("POST", "/api/v1/session/oidc"): ANYBODY,
    ("GET", "/api/v1/session/oidc/callback"): ANYBODY,
    ("PATCH", "/api/v1/session"): PERSON,
    ("POST", "/api/v1/session/password"): PERSON,
    ("POST", "/api/v1/session/invitation"): ANYBODY,
    ("POST", "/api/v1/session/invitation/look"): ANYBODY,
    ("GET", "/api/v1/sessions"): PERSON,
    ("DELETE", "/api/v1/sessions"): PERSON,
    ("DELETE", "/api/v1/sessions/{session_id}"): PERSON,
    ("GET", "/api/v1/members"): TENANT,
    ("POST", "/api/v1/members"): TENANT,
    ("GET", "/api/v1/members/{member}"): TENANT,
    ("PATCH", "/api/v1/members/{member}"): TENANT,
    ("DELETE", "/api/v1/members/{member}"): TENANT,
    ("GET", "/api/v1/invitations"): TENANT,
    ("DELETE", "/api/v1/invitations/{invitation}"): TENANT,
    ("POST", "/api/v1/session"): ANYBODY,
    ("DELETE", "/api/v1/session"): ANYBODY,
    ("GET", "/healthz"): ANYBODY,
    ("GET", "/readyz"): ANYBODY,
    ("GET", "/metrics"): ANYBODY,
}
GUARDED = [place for place, kind in CLASSES.items() if kind != ANYBODY]


def path_of(template: str) -> str:
    values = {"model": "m", "name": "n", "number": 1, "file": "f", "part": 1, "alias": "a"}
    values["prefix"] = "p"
    ids = (
        "key",
        "key_id",
        "upload_id",
        "import_id",
        "rollout_id",
        "webhook",
        "delivery",
        "session_id",
        "member",
        "key",
        "invitation",
        "person",
        "export",
    )
    return template.format(tenant="t", pool="p", **values, **dict.fromkeys(ids, uuid4()))


def code_of(path: str, answer: httpx.Response) -> str:
    body: dict[str, Any] = answer.json()
    code: str = body["error"]["code"] if path.startswith("/v1/") else body["code"]
    return code


def test_every_route_has_a_class() -> None:
    paths = create_app(Settings()).openapi()["paths"]
    routes = {(method.upper(), path) for path, item in paths.items() for method in item}
    assert routes == set(CLASSES)


@pytest.mark.parametrize(("method", "template"), GUARDED)
def test_no_key_is_401(method: str, template: str, gateway: RunningGateway) -> None:
    path = path_of(template)
    with gateway.client() as client:
        answer = client.request(method, path)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert code_of(path, answer) == "missing_api_key"


@pytest.mark.parametrize(("method", "template"), GUARDED)
def test_the_wrong_role_is_403(
    method: str, template: str, gateway: RunningGateway, tenant: Tenant, operator_key: str
) -> None:
    if CLASSES[method, template] == EITHER:
        return
    path = path_of(template)
    key = operator_key if CLASSES[method, template] == TENANT else tenant.key
    with gateway.client(key) as client:
        answer = client.request(method, path)
    assert answer.status_code == 403
    is_persons = CLASSES[method, template] == PERSON
    assert code_of(path, answer) == ("not_a_person" if is_persons else "wrong_role")


@pytest.mark.parametrize("key", ["lpx_nonsense", "sk-other", "x" * 5000, "é"])
def test_a_bad_key_is_401_and_is_not_repeated(key: str, gateway: RunningGateway) -> None:
    with gateway.client() as client:
        headers = {b"Authorization": b"Bearer " + key.encode()}
        answer = client.get("/v1/models", headers=headers)
    assert answer.status_code == 401
    assert code_of("/v1/models", answer) == "invalid_api_key"
    assert key not in answer.text


def test_another_scheme_is_no_key(gateway: RunningGateway) -> None:
    with gateway.client() as client:
        answer = client.get("/v1/models", headers={"Authorization": "Basic YTpi"})
    assert answer.status_code == 401


def test_a_claimed_address_changes_nothing_without_a_trusted_proxy(
    gateway: RunningGateway,
) -> None:
    # An address of its own, so that its failures are not counted to other tests.
    with gateway.client(address="127.0.0.77") as client:
        answers = [
            client.get(
                "/v1/models",
                headers={"Authorization": "Bearer lpx_bad", "X-Forwarded-For": f"10.0.0.{place}"},
            )
            for place in range(30)
        ]
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["Retry-After"]) >= 1


def test_a_key_is_wanted_before_the_body_is_judged(gateway: RunningGateway) -> None:
    with gateway.client() as client:
        answer = client.post("/v1/chat/completions", content=b"{broken")
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/v1/nothing", "application/json"),
        ("/api/v1/nothing", "application/problem+json"),
    ],
)
def test_a_path_without_a_route_is_404_in_its_shape(
    path: str, media_type: str, gateway: RunningGateway
) -> None:
    with gateway.client() as client:
        answer = client.get(path)
        wrong_method = client.put("/v1/models" if path.startswith("/v1/") else "/api/v1/adapters")
    assert (answer.status_code, answer.headers["content-type"]) == (404, media_type)
    assert code_of(path, answer) == "route_not_found"
    assert wrong_method.status_code == 405
    assert code_of(path, wrong_method) == "method_not_allowed"
