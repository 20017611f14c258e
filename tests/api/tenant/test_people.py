"""People sign in, look around and go elsewhere, over HTTP."""

from collections.abc import Iterator

import httpx
import pytest

from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.principals import OperatorRole, Role
from tests.api.conftest import Tenant, new_tenant
from tests.api.people import (
    PASSWORD,
    SESSION,
    accept,
    browser,
    invitation,
    join,
    new_email,
    operators_invitation,
)
from tests.api.running import RunningGateway

BASE = "smollm2-135m-instruct"


@pytest.fixture
def page(gateway: RunningGateway) -> Iterator[httpx.Client]:
    with browser(gateway) as client:
        yield client


def test_a_person_signs_in_with_their_password(
    page: httpx.Client, gateway: RunningGateway, gateway_settings: Settings, tenant: Tenant
) -> None:
    email = join(page, gateway_settings, tenant, Role.DEVELOPER)
    with browser(gateway) as other:
        answer = other.post(SESSION, json={"email": email, "password": PASSWORD})
        assert answer.status_code == 200
        session = answer.json()
        assert (session["kind"], session["tenant"], session["role"]) == (
            "tenant",
            tenant.name,
            "developer",
        )
        assert session["person"]["email"] == email
        assert session["places"] == [
            {"tenant": tenant.name, "state": "active", "role": "developer"}
        ]
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert PASSWORD not in answer.text
        assert other.get(SESSION).json() == session
        assert other.get("/api/v1/adapters").status_code == 200
        assert other.delete(SESSION).status_code == 204
        assert other.get("/api/v1/adapters").status_code == 401


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"email": "a@example.com"}, "password"),
        ({"password": "x"}, "email"),
        ({"email": "a@example.com", "password": "x", "api_key": "y"}, "api_key"),
        ({"email": "a@example.com", "password": ""}, "password"),
    ],
)
def test_a_wrong_form_names_the_field(body: dict[str, str], field: str, page: httpx.Client) -> None:
    answer = page.post(SESSION, json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_a_wrong_password_is_401_and_not_repeated(page: httpx.Client) -> None:
    answer = page.post(SESSION, json={"email": new_email(), "password": "my secret guess"})
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_login")
    assert "guess" not in answer.text
    assert "set-cookie" not in answer.headers


def test_a_role_bounds_what_its_person_may_do(
    page: httpx.Client, gateway_settings: Settings, tenant: Tenant
) -> None:
    join(page, gateway_settings, tenant, Role.VIEWER)
    assert page.get("/api/v1/adapters").status_code == 200
    refused = page.post("/v1/completions", json={"model": BASE, "prompt": "Hi", "max_tokens": 1})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "missing_scope")


def test_a_person_changes_tenant(page: httpx.Client, gateway_settings: Settings) -> None:
    first, second = new_tenant(gateway_settings), new_tenant(gateway_settings)
    email = join(page, gateway_settings, first, Role.OWNER)
    token = invitation(gateway_settings, second.name, email, Role.VIEWER)
    look = page.post(f"{SESSION}/invitation/look", json={"token": token}).json()
    assert (look["kind"], look["tenant"], look["has_account"]) == ("tenant", second.name, True)
    there = page.post(f"{SESSION}/invitation", json={"token": token}).json()
    assert there["tenant"] == second.name
    assert [place["tenant"] for place in there["places"]] == sorted([first.name, second.name])
    back = page.patch(SESSION, json={"tenant": first.name})
    assert (back.json()["tenant"], back.json()["role"]) == (first.name, "owner")
    nowhere = page.patch(SESSION, json={"tenant": "somewhere"})
    assert (nowhere.status_code, nowhere.json()["code"]) == (404, "no_such_place")
    assert page.patch(SESSION, json={"operator": True}).status_code == 404
    assert page.patch(SESSION, json={}).status_code == 400
    cross_site = page.patch(SESSION, json={"tenant": first.name}, headers={"Origin": "https://a.b"})
    assert cross_site.status_code == 403


def test_a_person_sees_and_ends_their_sessions(
    page: httpx.Client, gateway: RunningGateway, gateway_settings: Settings, tenant: Tenant
) -> None:
    email = join(page, gateway_settings, tenant, Role.DEVELOPER)
    with browser(gateway) as other:
        other.post(SESSION, json={"email": email, "password": PASSWORD}).raise_for_status()
        listed = page.get("/api/v1/sessions").json()["data"]
        assert [one["is_current"] for one in listed] == [False, True]
        assert page.delete(f"/api/v1/sessions/{listed[0]['id']}").status_code == 204
        assert other.get(SESSION).status_code == 401
        gone = page.delete(f"/api/v1/sessions/{listed[0]['id']}")
        assert (gone.status_code, gone.json()["code"]) == (404, "session_not_found")
        other.post(SESSION, json={"email": email, "password": PASSWORD}).raise_for_status()
        assert page.delete("/api/v1/sessions").status_code == 204
        assert other.get(SESSION).status_code == 401
    assert page.get(SESSION).status_code == 200


def test_another_password_signs_out_everywhere_else(
    page: httpx.Client, gateway: RunningGateway, gateway_settings: Settings, tenant: Tenant
) -> None:
    email = join(page, gateway_settings, tenant, Role.DEVELOPER)
    with browser(gateway) as other:
        other.post(SESSION, json={"email": email, "password": PASSWORD}).raise_for_status()
        new = {"current_password": PASSWORD, "new_password": "another password"}
        assert page.post(f"{SESSION}/password", json=new).status_code == 200
        assert other.get(SESSION).status_code == 401
        assert page.get(SESSION).json()["tenant"] == tenant.name
        old = other.post(SESSION, json={"email": email, "password": PASSWORD})
        assert old.status_code == 401


def test_a_link_of_another_site_signs_nobody_in(
    page: httpx.Client, gateway_settings: Settings, tenant: Tenant
) -> None:
    token = invitation(gateway_settings, tenant.name, new_email(), Role.VIEWER)
    body = {"token": token, "password": PASSWORD}
    answer = page.post(f"{SESSION}/invitation", json=body, headers={"Origin": "https://a.b"})
    assert answer.status_code == 403
    unknown = page.post(f"{SESSION}/invitation/look", json={"token": "i.nonsense"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "invitation_not_found")


def test_a_viewer_among_operators_reads_and_changes_nothing(
    page: httpx.Client, gateway_settings: Settings
) -> None:
    token = operators_invitation(gateway_settings, new_email(), OperatorRole.ADMIN_VIEWER)
    session = accept(page, token)
    assert (session["kind"], session["role"]) == ("operator", "admin_viewer")
    assert page.get("/api/v1/admin/tenants").status_code == 200
    path = "/api/v1/admin/tenants/t/adapters/a/versions/1/release"
    refused = page.post(path)
    assert (refused.status_code, refused.json()["code"]) == (403, "wrong_role")
