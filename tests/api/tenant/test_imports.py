from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from loraplex.adapters_registry.imports.sources import CONFIG_FILE, WEIGHTS_FILE
from loraplex.api.tenant.import_schemas import Import
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway

SECRET = "do-not-tell"
S3 = {"kind": "s3", "url": "s3://models/mine"}
KEYS = {"access_key_id": "AKIA", "secret_access_key": SECRET, "session_token": SECRET}
HUB = {"kind": "hub", "repository": "acme/lora"}
HTTPS = {"kind": "https", "url": "https://files.example/mine/"}


@pytest.fixture
def mine(gateway: RunningGateway, customer: Tenant) -> Iterator[httpx.Client]:
    with gateway.client(customer.key) as client:
        yield client


def start(client: httpx.Client, source: dict[str, Any], adapter: str = "parrot") -> httpx.Response:
    return client.post("/api/v1/imports", json={"adapter": adapter, "source": source})


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (S3 | KEYS, S3 | {"region": "us-east-1", "endpoint": None}),
        (
            S3 | {"endpoint": "https://store.example", "region": "auto"},
            S3 | {"endpoint": "https://store.example", "region": "auto"},
        ),
        (HUB | {"token": SECRET}, HUB | {"revision": "main", "folder": ""}),
        (
            HTTPS,
            {
                "kind": "https",
                "config_url": f"https://files.example/mine/{CONFIG_FILE}",
                "weights_url": f"https://files.example/mine/{WEIGHTS_FILE}",
            },
        ),
        (
            {
                "kind": "https",
                "config_url": f"https://files.example/c?sig={SECRET}",
                "weights_url": f"https://files.example/w?sig={SECRET}",
            },
            {
                "kind": "https",
                "config_url": "https://files.example/c",
                "weights_url": "https://files.example/w",
            },
        ),
    ],
)
def test_an_import_is_accepted_and_its_secrets_are_not_repeated(
    mine: httpx.Client, source: dict[str, Any], shown: dict[str, Any]
) -> None:
    answer = start(mine, source)
    assert answer.status_code == 202, answer.text
    body = Import.model_validate_json(answer.content)
    assert (body.adapter, body.status, body.version, body.bytes) == ("parrot", "queued", None, 0)
    assert {k: v for k, v in answer.json()["source"].items() if k in shown} == shown
    assert answer.headers["Location"] == f"/api/v1/imports/{body.id}"
    again = mine.get(answer.headers["Location"])
    assert again.json()["id"] == str(body.id)
    listed = mine.get("/api/v1/imports").json()
    assert [one["id"] for one in listed["data"]] == [str(body.id)]
    assert SECRET not in answer.text + again.text + str(listed)


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"kind": "ftp"}, "source"),
        (HUB | {"nonsense": 1}, "source.hub.nonsense"),
        ({"kind": "s3"}, "source.s3.url"),
        ({"kind": "https"}, "source.https"),
        (HTTPS | {"config_url": "https://files.example/c"}, "source.https"),
        ({"kind": "https", "url": "https://files.example/mine"}, "source.url"),
        ({"kind": "https", "url": "http://files.example/mine/"}, "url"),
        ({"kind": "https", "url": "https://127.0.0.1/mine/"}, "url"),
        (S3 | {"endpoint": "https://[::1]"}, "url"),
        (S3 | {"access_key_id": SECRET}, "source.secret_access_key"),
        (HUB | {"repository": "lora"}, "source.repository"),
        (HUB | {"token": f"{SECRET}\n"}, "source.token"),
    ],
)
def test_a_source_that_cannot_be_is_refused_by_its_field(
    mine: httpx.Client, source: dict[str, Any], field: str
) -> None:
    answer = start(mine, source)
    assert answer.status_code == 400, answer.text
    assert answer.json()["field"] == field
    assert SECRET not in answer.text


def test_a_bad_name_is_refused_before_anything_is_fetched(mine: httpx.Client) -> None:
    answer = start(mine, HUB, adapter="a/b")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_adapter_name")


def test_a_neighbours_import_is_404(
    mine: httpx.Client, gateway: RunningGateway, neighbour: Tenant
) -> None:
    place = start(mine, HUB).headers["Location"]
    with gateway.client(neighbour.key) as theirs:
        for path in (place, f"/api/v1/imports/{uuid4()}", "/api/v1/imports/nonsense"):
            answer = theirs.get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "import_not_found")
        assert place.rpartition("/")[2] not in theirs.get("/api/v1/imports").text


def test_imports_come_in_pages_newest_first(mine: httpx.Client) -> None:
    for adapter in ("a", "b", "c"):
        start(mine, HUB, adapter).raise_for_status()
    page = mine.get("/api/v1/imports", params={"limit": 2}).json()
    rest = mine.get("/api/v1/imports", params={"cursor": page["next_cursor"]}).json()
    assert [one["adapter"] for one in page["data"] + rest["data"]] == ["c", "b", "a"]
    assert rest["next_cursor"] is None
