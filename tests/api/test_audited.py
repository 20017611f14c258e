"""Every route that changes something is in the audit log, or says here why it need not be."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from loraplex.api.gateway import create_app
from loraplex.platform.settings import Settings
from tests.api.conftest import new_tenant
from tests.api.running import RunningGateway
from tests.api.tenant.owners import Owner, files

ADAPTER = "/api/v1/adapters/{name}"
VERSION = f"{ADAPTER}/versions/{{number}}"
ALIAS = f"{ADAPTER}/aliases/{{alias}}"
ROLLOUT = f"{ADAPTER}/rollouts/{{rollout_id}}"
UPLOAD = "/api/v1/uploads/{upload_id}"
WEBHOOK = "/api/v1/webhooks/{webhook}"
QUARANTINE = "/api/v1/admin/tenants/{tenant}/adapters/{name}/versions/{number}"

PREFIX = "/api/v1/admin/public-prefixes/{prefix}"
OPERATOR_KEYS = "/api/v1/admin/operator-keys"

ROOT = Path(__file__).parents[2]
Route = tuple[str, str]

WALKED: dict[Route, str] = {
    ("POST", f"{ADAPTER}/versions"): "version.uploaded",
    ("DELETE", VERSION): "version.deleted",
    ("POST", f"{VERSION}/restore"): "version.restored",
    ("DELETE", ADAPTER): "adapter.deleted",
    ("POST", f"{ADAPTER}/restore"): "adapter.restored",
    ("PUT", f"{ADAPTER}/pin"): "adapter.pinned",
    ("DELETE", f"{ADAPTER}/pin"): "adapter.unpinned",
    ("PUT", ALIAS): "alias.moved",
    ("DELETE", ALIAS): "alias.moved",
    ("POST", f"{ALIAS}/rollback"): "alias.moved",
    ("POST", f"{ADAPTER}/rollouts"): "rollout.started",
    ("PATCH", ROLLOUT): "rollout.weighed",
    ("POST", f"{ROLLOUT}/pause"): "rollout.paused",
    ("POST", f"{ROLLOUT}/resume"): "rollout.resumed",
    ("POST", f"{ROLLOUT}/promote"): "rollout.promoted",
    ("POST", f"{ROLLOUT}/roll-back"): "rollout.rolled_back",
    ("POST", "/api/v1/uploads"): "upload.created",
    ("POST", f"{UPLOAD}/abort"): "upload.aborted",
    ("POST", "/api/v1/imports"): "import.started",
    ("POST", "/api/v1/webhooks"): "webhook.created",
    ("PATCH", WEBHOOK): "webhook.changed",
    ("POST", f"{WEBHOOK}/rotate-secret"): "webhook.secret_rotated",
    ("DELETE", WEBHOOK): "webhook.deleted",
    ("POST", f"{QUARANTINE}/quarantine"): "version.quarantined",
    ("POST", f"{QUARANTINE}/release"): "version.released",
    ("POST", OPERATOR_KEYS): "operator_key.created",
    ("PATCH", f"{OPERATOR_KEYS}/{{key}}"): "operator_key.changed",
    ("POST", f"{OPERATOR_KEYS}/{{key}}/rotate"): "operator_key.rotated",
    ("DELETE", f"{OPERATOR_KEYS}/{{key}}"): "operator_key.revoked",
    ("PUT", PREFIX): "public_prefix.declared",
    ("DELETE", PREFIX): "public_prefix.withdrawn",
    ("PUT", "/api/v1/admin/switches/{name}"): "switch.turned_off",
    ("POST", "/api/v1/admin/pools/{pool}/drain"): "switch.turned_on",
    ("POST", "/api/v1/admin/pools/{pool}/undrain"): "switch.turned_off",
}
"""Routes that this test calls, and the action that must then be in the log under its request."""

KEYS = "tests/api/tenant/test_keys.py"
LIMITS = "tests/platform/admission/test_limits.py"
TENANT = "/api/v1/admin/tenants/{tenant}"
TENANTS, PEOPLE = (
    "platform/loraplex/platform/lifecycle/service.py",
    "api/loraplex/api/admin/people.py",
)
MANAGED = "platform/loraplex/platform/people/managing.py"
MEMBERS, SESSIONS = "tests/api/tenant/test_members.py", "tests/platform/people/test_sessions.py"

ELSEWHERE: dict[Route, str] = {
    ("POST", "/api/v1/keys"): KEYS,
    ("PATCH", "/api/v1/keys/{key}"): KEYS,
    ("POST", "/api/v1/keys/{key}/rotate"): KEYS,
    ("DELETE", "/api/v1/keys/{key}"): KEYS,
    ("POST", "/api/v1/admin/tenants/{tenant}/keys"): KEYS,
    ("DELETE", "/api/v1/admin/tenants/{tenant}/keys/{key}"): KEYS,
    ("POST", "/api/v1/admin/prices"): "tests/api/admin/test_prices.py",
    ("PUT", f"{TENANT}/limits"): LIMITS,
    ("PUT", f"{TENANT}/budgets"): LIMITS,
    ("PUT", f"{TENANT}/models/{{model}}/limits"): LIMITS,
    ("PUT", "/api/v1/keys/{key}/limits"): LIMITS,
    ("PUT", "/api/v1/members/{member}/limits"): LIMITS,
    ("POST", "/api/v1/admin/tenants"): "tests/platform/test_audited_commands.py",
    ("PATCH", TENANT): TENANTS,
    ("DELETE", TENANT): TENANTS,
    ("POST", f"{TENANT}/suspend"): TENANTS,
    ("POST", f"{TENANT}/resume"): TENANTS,
    ("PUT", f"{TENANT}/slo-class"): "platform/loraplex/platform/slo/service.py",
    ("PUT", f"{TENANT}/keys/{{key_id}}/slo-class"): "platform/loraplex/platform/slo/service.py",
    ("POST", f"{TENANT}/exports"): TENANTS,
    ("POST", f"{TENANT}/members"): MANAGED,
    ("PATCH", f"{TENANT}/members/{{member}}"): MANAGED,
    ("DELETE", f"{TENANT}/members/{{member}}"): MANAGED,
    ("POST", "/api/v1/admin/people"): PEOPLE,
    ("PATCH", "/api/v1/admin/people/{person}"): PEOPLE,
    ("POST", "/api/v1/admin/people/{person}/reset-password"): PEOPLE,
    ("POST", "/api/v1/members"): MEMBERS,
    ("PATCH", "/api/v1/members/{member}"): MEMBERS,
    ("DELETE", "/api/v1/members/{member}"): MEMBERS,
    ("DELETE", "/api/v1/invitations/{invitation}"): MEMBERS,
    ("POST", "/api/v1/session/invitation"): MEMBERS,
    ("POST", "/api/v1/session/password"): SESSIONS,
    ("DELETE", "/api/v1/sessions"): SESSIONS,
    ("DELETE", "/api/v1/sessions/{session_id}"): SESSIONS,
    ("POST", "/api/v1/session"): SESSIONS,
    ("DELETE", "/api/v1/session"): SESSIONS,
}
"""Routes whose line is looked for by tests of their own, or written in one place: where."""

EXEMPT: dict[Route, str] = {
    ("POST", "/v1/chat/completions"): "a call: the ledger has a row of each",
    ("POST", "/v1/completions"): "a call: the ledger has a row of each",
    ("POST", f"{UPLOAD}/part-urls"): "signs addresses for an upload whose beginning is recorded",
    ("PUT", f"{UPLOAD}/files/{{file}}/parts/{{part}}"): "bytes of an upload that is recorded",
    ("POST", f"{UPLOAD}/complete"): "asks a job, which records upload.completed or upload.failed",
    ("POST", f"{WEBHOOK}/test"): "sends a message, which is listed as a delivery",
    ("POST", f"{WEBHOOK}/deliveries/{{delivery}}/retry"): "sends what is listed as a delivery",
    ("POST", "/api/v1/session/oidc"): "begins a sign-in, which is recorded when it ends",
    ("PATCH", "/api/v1/session"): "chooses which of the person's tenants the browser shows",
    ("POST", "/api/v1/session/invitation/look"): "reads; the token is too secret for an address",
}


def test_every_route_that_changes_something_is_audited_or_exempt_for_a_reason() -> None:
    paths = create_app(Settings()).openapi()["paths"]
    changing = {
        (method.upper(), path) for path, item in paths.items() for method in item if method != "get"
    }
    assert changing == {*WALKED, *ELSEWHERE, *EXEMPT}
    assert len(changing) == len(WALKED) + len(ELSEWHERE) + len(EXEMPT)
    for module in set(ELSEWHERE.values()):
        assert "audit" in (ROOT / module).read_text("utf-8"), module


@dataclass
class Walker:
    """Calls routes with one credential each, and remembers under which id each was answered."""

    tenant: httpx.Client
    operator: httpx.Client
    called: list[tuple[Route, str]] = field(default_factory=list)

    def call(self, method: str, template: str, values: dict[str, Any], **options: Any) -> Any:
        client = self.operator if template.startswith("/api/v1/admin") else self.tenant
        answer = client.request(method, template.format(**values), **options)
        assert answer.is_success, (template, answer.text)
        self.called.append(((method, template), answer.headers["x-request-id"]))
        return answer.json() if answer.content else None


@pytest.fixture(scope="module")
def walker(
    gateway: RunningGateway, gateway_settings: Settings, operator_key: str
) -> Iterator[Walker]:
    tenant = new_tenant(gateway_settings)
    with gateway.client(tenant.key) as mine, gateway.client(operator_key) as operator:
        owner = Owner(tenant.name, mine)
        owner.upload(gateway_settings, "support", "pirate", "shout")
        walker = Walker(mine, operator)
        walk(walker, {"tenant": tenant.name, "name": "support", "number": 1, "alias": "canary"})
        yield walker


def walk(walker: Walker, at: dict[str, Any]) -> None:
    call = walker.call
    call("POST", f"{ADAPTER}/versions", at | {"name": "other"}, files=files("json"))
    call("PUT", f"{ADAPTER}/pin", at)
    call("DELETE", f"{ADAPTER}/pin", at)
    match = {"If-Match": '"1"'}
    call("PUT", ALIAS, at, json={"version": 1})
    call("PUT", ALIAS, at, json={"version": 2}, headers=match)
    call("POST", f"{ALIAS}/rollback", at, headers={"If-Match": '"2"'})
    for end in ("promote", "roll-back"):
        alias = f"rolled-{end}"
        call("PUT", ALIAS, at | {"alias": alias}, json={"version": 1})
        plan = {"alias": alias, "version": 2, "weight": 10}
        begun = call("POST", f"{ADAPTER}/rollouts", at, json=plan)
        rollout = at | {"rollout_id": begun["id"]}
        call("PATCH", ROLLOUT, rollout, json={"weight": 20})
        call("POST", f"{ROLLOUT}/pause", rollout)
        call("POST", f"{ROLLOUT}/resume", rollout)
        call("POST", f"{ROLLOUT}/{end}", rollout)
    call("DELETE", ALIAS, at | {"alias": "canary"}, headers={"If-Match": '"3"'})
    call("DELETE", VERSION, at | {"name": "other"})
    call("POST", f"{VERSION}/restore", at | {"name": "other"})
    call("DELETE", ADAPTER, at | {"name": "other"})
    call("POST", f"{ADAPTER}/restore", at | {"name": "other"})
    sizes = [{"name": "adapter_config.json", "size_bytes": 2}]
    sizes.append({"name": "adapter_model.safetensors", "size_bytes": 9})
    upload = call("POST", "/api/v1/uploads", at, json={"adapter": "new", "files": sizes})
    call("POST", f"{UPLOAD}/abort", {"upload_id": upload["id"]})
    source = {"kind": "hub", "repository": "acme/lora", "token": "hf_secret"}
    call("POST", "/api/v1/imports", at, json={"adapter": "new", "source": source})
    url = "https://hooks.example/services/secret-in-the-path"
    webhook = call("POST", "/api/v1/webhooks", at, json={"url": url})
    one = {"webhook": webhook["id"]}
    call("PATCH", WEBHOOK, one, json={"description": "deployments"})
    call("POST", f"{WEBHOOK}/rotate-secret", one)
    call("DELETE", WEBHOOK, one)
    call("POST", f"{QUARANTINE}/quarantine", at, json={"reason": "smells"})
    call("POST", f"{QUARANTINE}/release", at)
    key = call("POST", OPERATOR_KEYS, at, json={"name": "night shift"})
    one = {"key": key["id"]}
    call("PATCH", f"{OPERATOR_KEYS}/{{key}}", one, json={"name": "day shift"})
    rotated = call("POST", f"{OPERATOR_KEYS}/{{key}}/rotate", one)
    call("DELETE", f"{OPERATOR_KEYS}/{{key}}", {"key": rotated["id"]})
    call("PUT", PREFIX, {"prefix": "audited"}, json={"text": "Be brief."})
    call("DELETE", PREFIX, {"prefix": "audited"})
    order = {"is_on": False, "reason": "to be sure"}
    call("PUT", "/api/v1/admin/switches/{name}", {"name": "read_only"}, json=order)
    pool = {"pool": "default"}
    call("POST", "/api/v1/admin/pools/{pool}/drain", pool, json={"reason": "a test"})
    call("POST", "/api/v1/admin/pools/{pool}/undrain", pool, json={"reason": "a test"})


@pytest.fixture(scope="module")
def lines(walker: Walker) -> dict[str, list[dict[str, Any]]]:
    """The whole log as operators read it, by request."""
    found: dict[str, list[dict[str, Any]]] = {}
    query = {"limit": "200"}
    while query:
        page = walker.operator.get("/api/v1/admin/audit", params=query).json()
        for line in page["data"]:
            found.setdefault(line["request_id"], []).append(line)
        cursor = page["next_cursor"]
        query = {} if cursor is None else {"limit": "200", "cursor": cursor}
    return found


def test_what_they_change_is_in_the_log_under_their_request(
    walker: Walker, lines: dict[str, list[dict[str, Any]]]
) -> None:
    assert {route for route, _ in walker.called} == set(WALKED)
    for route, request_id in walker.called:
        actions = [line["action"] for line in lines[request_id]]
        assert WALKED[route] in actions, route
        for line in lines[request_id]:
            by_operator = route[1].startswith("/api/v1/admin")
            assert line["actor"]["kind"] == ("operator" if by_operator else "key")
            assert line["address"] == "127.0.0.1"
            assert line["actor"]["id"]


def test_the_log_tells_before_and_after(
    walker: Walker, lines: dict[str, list[dict[str, Any]]]
) -> None:
    told = {
        route: (line["before"], line["after"])
        for route, request_id in walker.called
        for line in lines[request_id]
    }
    assert told["DELETE", ALIAS] == (
        {"version": 1},
        {"version": None, "kind": "removed", "generation": 4},
    )
    before, after = told["PATCH", ROLLOUT]
    assert (before["weight"], after["weight"]) == (10, 20)
    before, after = told["PATCH", WEBHOOK]
    assert (before["description"], after["description"]) == ("", "deployments")
    assert told["POST", f"{QUARANTINE}/release"] == ({"reason": "smells"}, {"reason": None})


def test_no_line_has_a_secret(walker: Walker, lines: dict[str, list[dict[str, Any]]]) -> None:
    text = str(lines)
    keys = [one.headers["Authorization"].split()[1] for one in (walker.tenant, walker.operator)]
    assert "hooks.example" in text
    for secret in ("secret-in-the-path", "hf_secret", "whsec_", *keys):
        assert secret not in text
