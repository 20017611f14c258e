from collections.abc import Iterator

import httpx
import pytest

from tests.api.conftest import Tenant
from tests.api.running import RunningGateway

BASE = "smollm2-135m-instruct"
SESSION = "/api/v1/session"
COMPLETION = {"model": BASE, "prompt": "Hi", "max_tokens": 1}


@pytest.fixture
def browser(gateway: RunningGateway) -> Iterator[httpx.Client]:
    """Keeps cookies, and says which page it is on."""
    with gateway.client() as client:
        client.headers.update({"Origin": gateway.url, "X-Loraplex-CSRF": "1"})
        yield client


@pytest.fixture
def signed_in(browser: httpx.Client, tenant: Tenant) -> httpx.Client:
    browser.post(SESSION, json={"api_key": tenant.key}).raise_for_status()
    return browser


def test_a_key_is_exchanged_for_a_cookie_no_script_can_read(
    browser: httpx.Client, tenant: Tenant
) -> None:
    answer = browser.post(SESSION, json={"api_key": tenant.key})
    assert answer.status_code == 200
    session = answer.json()
    assert (session["kind"], session["tenant"]) == ("tenant", tenant.name)
    assert (session["base_model"], session["role"], session["person"]) == (BASE, "owner", None)
    cookie = answer.headers["set-cookie"].lower()
    assert "lpx_session=" in cookie
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert tenant.key not in cookie
    assert browser.get(SESSION).json()["tenant"] == tenant.name


def test_an_operator_signs_in_as_one(browser: httpx.Client, operator_key: str) -> None:
    answer = browser.post(SESSION, json={"api_key": operator_key})
    session = answer.json()
    assert (session["kind"], session["tenant"], session["role"]) == ("operator", None, "admin")
    assert browser.get("/api/v1/admin/workers").status_code == 200
    assert browser.get("/api/v1/adapters").status_code == 403


def test_a_bad_key_opens_no_session_and_is_not_repeated(browser: httpx.Client) -> None:
    answer = browser.post(SESSION, json={"api_key": "lpx_mine"})
    assert answer.status_code == 401
    assert "lpx_mine" not in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "api_key"), ({"api_key": 5}, "api_key"), ({"api_key": "x", "k": 1}, "k")],
)
def test_a_wrong_sign_in_names_the_field_and_repeats_nothing(
    body: dict[str, object], field: str, browser: httpx.Client
) -> None:
    answer = browser.post(SESSION, json=body)
    assert answer.status_code == 400
    assert answer.json()["field"] == field


def test_a_session_serves_both_apis(signed_in: httpx.Client) -> None:
    assert signed_in.get("/api/v1/adapters").status_code == 200
    assert signed_in.get("/v1/models").status_code == 200
    assert signed_in.post("/v1/completions", json=COMPLETION).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Loraplex-CSRF": ""},
        {"Origin": ""},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
    ],
)
def test_another_sites_page_cannot_use_the_cookie(
    headers: dict[str, str], signed_in: httpx.Client
) -> None:
    answer = signed_in.post("/v1/completions", json=COMPLETION, headers=headers)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "cross_site_request"
    answer = signed_in.delete(SESSION, headers=headers)
    assert answer.status_code == 403
    assert signed_in.get(SESSION).status_code == 200


def test_a_key_needs_no_origin(gateway: RunningGateway, tenant: Tenant) -> None:
    with gateway.client(tenant.key) as client:
        answer = client.post("/v1/completions", json=COMPLETION, headers={"Origin": "https://a.b"})
    assert answer.status_code == 200


def test_another_site_cannot_sign_anybody_in(browser: httpx.Client, tenant: Tenant) -> None:
    answer = browser.post(
        SESSION, json={"api_key": tenant.key}, headers={"Origin": "https://elsewhere.example"}
    )
    assert answer.status_code == 403


def test_signing_out_ends_the_session_everywhere(signed_in: httpx.Client) -> None:
    token = signed_in.cookies["lpx_session"]
    answer = signed_in.delete(SESSION)
    assert answer.status_code == 204
    assert "lpx_session" not in signed_in.cookies
    signed_in.cookies.set("lpx_session", token)
    again = signed_in.get(SESSION)
    assert again.status_code == 401
    assert again.json()["code"] == "invalid_session"


def test_signing_out_without_a_session_does_no_harm(gateway: RunningGateway) -> None:
    with gateway.client() as client:
        assert client.delete(SESSION).status_code == 204
