"""What no program expects: NUL characters, refused by their place, and origins without sense."""

from typing import Any

import pytest

from tests.api.conftest import Tenant
from tests.api.running import RunningGateway

RULE = "text without NUL characters"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"email": "a\0@example.com", "password": "x"}, "email"),
        ({"email": "a@example.com", "password": "\0"}, "password"),
        ({"api_key": {"deep": [1, "\0"]}}, "api_key.deep[1]"),
        ({"\0": 1}, "body"),
    ],
)
def test_nul_in_a_body_names_its_field(
    body: dict[str, Any], field: str, gateway: RunningGateway
) -> None:
    with gateway.client() as client:
        answer = client.post("/api/v1/session", json=body)
    assert answer.status_code == 400
    told = answer.json()
    assert (told["code"], told["field"], told["rule"]) == ("invalid_value", field, RULE)


def test_a_backslash_before_u0000_is_no_nul(gateway: RunningGateway) -> None:
    with gateway.client(address="127.0.0.78") as client:
        answer = client.post("/api/v1/session", json={"api_key": "\\u0000"})
    assert answer.json()["code"] == "invalid_api_key"


@pytest.mark.parametrize("key", ["one's own", None])
def test_nothing_has_a_name_with_nul(
    key: str | None, gateway: RunningGateway, tenant: Tenant
) -> None:
    with gateway.client(key and tenant.key) as client:
        for path in ("/api/v1/adapters/a%00b", "/api/v1/adapters/a/aliases/%00", "/v1/models/%00"):
            answer = client.get(path)
            assert answer.status_code == 404
            assert "route_not_found" in answer.text


def test_nul_in_a_query_names_its_parameter(gateway: RunningGateway, tenant: Tenant) -> None:
    with gateway.client(tenant.key) as client:
        answer = client.get("/api/v1/uploads?limit=1&adapter=a%00b")
        harmless = client.get("/api/v1/uploads?limit=1&adapter=a%2500b")
    assert (answer.status_code, answer.json()["field"]) == (400, "adapter")
    assert answer.json()["rule"] == RULE
    assert harmless.status_code == 200


def test_a_prompt_may_say_anything(gateway: RunningGateway, tenant: Tenant) -> None:
    with gateway.client(tenant.key) as client:
        body = {"model": "smollm2-135m-instruct", "prompt": "a\0b", "max_tokens": 1}
        assert client.post("/v1/completions", json=body).status_code == 200
        unknown = client.post("/v1/completions", json=body | {"model": "a\0b"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")


def test_an_origin_that_is_no_url_is_another_origin(gateway: RunningGateway) -> None:
    with gateway.client() as client:
        body, headers = {"token": "x"}, {"Origin": "http://[::1"}
        answer = client.post("/api/v1/session/invitation/look", json=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "cross_site_request")
