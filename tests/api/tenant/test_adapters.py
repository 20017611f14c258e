import io
import zipfile
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from loraplex.api.tenant.schemas import Version
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway, running_gateway
from tests.api.tenant.owners import FIXTURES, files


@pytest.fixture
def mine(gateway: RunningGateway, customer: Tenant) -> Iterator[httpx.Client]:
    with gateway.client(customer.key) as client:
        yield client


def test_an_upload_is_a_new_version_and_the_same_bytes_are_the_same(
    mine: httpx.Client, customer: Tenant
) -> None:
    first = mine.post("/api/v1/adapters/parrot/versions", files=files("pirate"))
    assert first.status_code == 202, first.text
    version = Version.model_validate_json(first.content)
    assert (version.adapter, version.version, version.status) == ("parrot", 1, "uploaded")
    assert version.model == f"{customer.name}/parrot:v1"
    assert first.headers["Location"] == "/api/v1/adapters/parrot/versions/1"
    again = mine.post("/api/v1/adapters/parrot/versions", files=files("pirate"))
    assert again.status_code == 200
    assert again.json() == first.json()
    other = mine.post("/api/v1/adapters/parrot/versions", files=files("shout"))
    assert (other.status_code, other.json()["version"]) == (202, 2)
    assert mine.get(other.headers["Location"]).json() == other.json()
    listed = mine.get("/api/v1/adapters/parrot/versions").json()
    assert [one["version"] for one in listed["data"]] == [2, 1]
    adapter = mine.get("/api/v1/adapters/parrot").json()
    assert adapter["latest_version"] == other.json()
    assert mine.get("/api/v1/adapters").json() == {"data": [adapter], "next_cursor": None}


def test_a_tenant_has_as_many_adapters_as_it_may(
    mine: httpx.Client, customer: Tenant, gateway: RunningGateway, operator_key: str
) -> None:
    with gateway.client(operator_key) as operator:
        order = {"max_adapters": 1}
        path = f"/api/v1/admin/tenants/{customer.name}/limits"
        operator.put(path, json=order).raise_for_status()
    parrot, other = "/api/v1/adapters/parrot", "/api/v1/adapters/other"
    assert mine.post(f"{parrot}/versions", files=files("pirate")).status_code == 202
    assert mine.post(f"{parrot}/versions", files=files("shout")).status_code == 202

    refused = mine.post(f"{other}/versions", files=files("json"))
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_adapters")
    assert refused.json()["rule"] == "max_adapters of 1"
    assert refused.headers["x-should-retry"] == "false"  # no waiting makes room
    assert mine.get(other).status_code == 404

    mine.delete(parrot).raise_for_status()
    assert mine.post(f"{other}/versions", files=files("json")).status_code == 202
    restored = mine.post(f"{parrot}/restore")
    assert (restored.status_code, restored.json()["code"]) == (429, "too_many_adapters")
    mine.delete(other).raise_for_status()
    mine.post(f"{parrot}/restore").raise_for_status()


def test_an_archive_in_the_form_is_its_two_files(mine: httpx.Client) -> None:
    folder = FIXTURES / "pirate"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.iterdir():
            archive.write(file, f"pirate/{file.name}")
    sent = {"archive": ("pirate.zip", buffer.getvalue())}
    first = mine.post("/api/v1/adapters/zipped/versions", files=sent)
    assert first.status_code == 202, first.text
    again = mine.post("/api/v1/adapters/zipped/versions", files=files("pirate"))
    assert (again.status_code, again.json()["digest"]) == (200, first.json()["digest"])
    bad = mine.post("/api/v1/adapters/zipped/versions", files={"archive": ("a.zip", b"PK")})
    assert (bad.status_code, bad.json()["code"]) == (400, "archive_refused")
    both = mine.post("/api/v1/adapters/zipped/versions", files=files("pirate") | sent)
    assert (both.status_code, both.json()["field"]) == (400, "archive")


def test_a_neighbours_adapter_is_404(
    mine: httpx.Client, gateway: RunningGateway, neighbour: Tenant
) -> None:
    mine.post("/api/v1/adapters/secret/versions", files=files("pirate")).raise_for_status()
    with gateway.client(neighbour.key) as theirs:
        for path in ("", "/versions", "/versions/1"):
            answer = theirs.get(f"/api/v1/adapters/secret{path}")
            assert answer.status_code == 404
            assert answer.json()["code"] == "adapter_not_found"
        assert "secret" not in theirs.get("/api/v1/adapters").text


def test_lists_come_in_pages(mine: httpx.Client) -> None:
    for name in ("c", "a", "b"):
        mine.post(f"/api/v1/adapters/{name}/versions", files=files("pirate")).raise_for_status()
    page = mine.get("/api/v1/adapters", params={"limit": 2}).json()
    assert [one["name"] for one in page["data"]] == ["a", "b"]
    rest = mine.get("/api/v1/adapters", params={"cursor": page["next_cursor"]}).json()
    assert [one["name"] for one in rest["data"]] == ["c"]
    assert rest["next_cursor"] is None


def test_versions_come_in_pages_newest_first(mine: httpx.Client) -> None:
    for adapter in ("pirate", "shout"):
        mine.post("/api/v1/adapters/x/versions", files=files(adapter)).raise_for_status()
    page = mine.get("/api/v1/adapters/x/versions", params={"limit": 1}).json()
    assert [one["version"] for one in page["data"]] == [2]
    after = {"cursor": page["next_cursor"]}
    rest = mine.get("/api/v1/adapters/x/versions", params=after).json()
    assert [one["version"] for one in rest["data"]] == [1]
    assert rest["next_cursor"] is None
    other = mine.get("/api/v1/adapters", params=after)
    assert (other.status_code, other.json()["field"]) == (400, "cursor")


@pytest.mark.parametrize(
    ("query", "field"),
    [({"limit": 0}, "limit"), ({"limit": "x"}, "limit"), ({"cursor": "!"}, "cursor")],
)
def test_a_bad_page_is_400_and_named(query: dict[str, Any], field: str, mine: httpx.Client) -> None:
    answer = mine.get("/api/v1/adapters", params=query)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["field"] == field


@pytest.mark.parametrize("number", ["0", "x", "99999999999"])
def test_a_version_that_is_no_number_is_400(number: str, mine: httpx.Client) -> None:
    answer = mine.get(f"/api/v1/adapters/a/versions/{number}")
    assert (answer.status_code, answer.json()["field"]) == (400, "number")


@pytest.mark.parametrize("name", ["smollm2-135m-instruct", "a:b", "a@b", "x" * 97, ".hidden"])
def test_a_name_that_could_be_mistaken_is_refused(name: str, mine: httpx.Client) -> None:
    answer = mine.post(f"/api/v1/adapters/{name}/versions", files=files("pirate"))
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_adapter_name"


def test_a_form_that_is_not_right_names_what_is_wrong(mine: httpx.Client) -> None:
    def refused(**changed: Any) -> dict[str, Any]:
        given = files("pirate") | changed
        given = {field: file for field, file in given.items() if file is not None}
        answer = mine.post("/api/v1/adapters/form/versions", files=given)
        assert answer.status_code == 400, answer.text
        problem: dict[str, Any] = answer.json()
        return problem

    assert refused(adapter_model=None)["field"] == "adapter_model"
    assert refused(extra=("e", b"x"))["field"] == "extra"
    assert refused(adapter_config=("c", b""))["field"] == "adapter_config"
    assert mine.post("/api/v1/adapters/form/versions", json={}).json()["code"] == "invalid_form"
    assert mine.get("/api/v1/adapters/form").status_code == 404


def test_an_upload_beyond_the_limit_is_413_declared_or_not(
    gateway_settings: Settings, registered_base: None, customer: Tenant
) -> None:
    small = gateway_settings.model_copy(update={"max_upload_bytes": 100_000})
    boundary = "b"
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="adapter_model"; filename="m"'
        "\r\n\r\n"
    ).encode()
    kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}

    def undeclared() -> Iterator[bytes]:
        yield head
        for _ in range(40):
            yield b"x" * 10_000

    with running_gateway(small) as gateway, gateway.client(customer.key) as client:
        path = "/api/v1/adapters/big/versions"
        answer = client.post(path, content=undeclared(), headers=kind)
        assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")
        assert answer.json()["field"] == "adapter_model"
        answer = client.post(path, content=head + b"x" * 400_000, headers=kind)
        assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")
    assert not list((small.data_dir / "uploads").iterdir())


def test_an_adapter_is_pinned_seen_and_let_go(
    mine: httpx.Client, gateway: RunningGateway, neighbour: Tenant
) -> None:
    mine.post("/api/v1/adapters/kept/versions", files=files("pirate")).raise_for_status()
    pin = "/api/v1/adapters/kept/pin"
    assert (mine.get(pin).status_code, mine.get(pin).json()["code"]) == (404, "pin_not_found")
    made = mine.put(pin)
    assert made.status_code == 200, made.text
    assert made.json()["adapter"] == "kept"
    assert mine.put(pin).json() == made.json() == mine.get(pin).json()
    with gateway.client(neighbour.key) as theirs:
        for method in ("GET", "PUT", "DELETE"):
            assert theirs.request(method, pin).status_code == 404
    assert mine.delete(pin).status_code == 204
    assert mine.delete(pin).status_code == 204
    assert mine.get(pin).status_code == 404
