from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from loraplex.api.tenant.upload_schemas import Upload
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PART_BYTES = 8 * 1024 * 1024
SMALL: dict[str, bytes] = {CONFIG: b"{}", WEIGHTS: b"x" * 1000}


@pytest.fixture
def mine(gateway: RunningGateway, customer: Tenant) -> Iterator[httpx.Client]:
    with gateway.client(customer.key) as client:
        yield client


def announced(files: dict[str, bytes]) -> dict[str, Any]:
    sizes = [{"name": name, "size_bytes": len(data)} for name, data in files.items()]
    return {"adapter": "support", "files": sizes}


def opened(client: httpx.Client, files: dict[str, bytes] = SMALL) -> str:
    answer = client.post("/api/v1/uploads", json=announced(files))
    assert answer.status_code == 201, answer.text
    return str(answer.headers["Location"])


def test_an_upload_is_opened_filled_and_completed_and_says_where_it_is(
    mine: httpx.Client,
) -> None:
    files = SMALL | {WEIGHTS: b"w" * (PART_BYTES + 5)}
    path = opened(mine, files)
    view = Upload.model_validate_json(mine.get(path).content)
    assert (view.status, view.version, view.error) == ("pending", None, None)
    assert [file.part_bytes for file in view.files] == [PART_BYTES] * 2
    urls = mine.post(f"{path}/part-urls", json={"file": WEIGHTS, "parts": [1, 2]}).json()["urls"]
    assert [url["url"] for url in urls] == [f"{path}/files/{WEIGHTS}/parts/{n}" for n in (1, 2)]
    assert [(url["size_bytes"], url["expires_at"]) for url in urls] == [
        (PART_BYTES, None),
        (5, None),
    ]
    sent = mine.put(urls[0]["url"], content=files[WEIGHTS][:PART_BYTES])
    assert (sent.status_code, sent.json()) == (200, {"part": 1, "size_bytes": PART_BYTES})
    early = mine.post(f"{path}/complete", json={})
    assert (early.status_code, early.json()["code"]) == (409, "upload_incomplete")
    mine.put(urls[1]["url"], content=files[WEIGHTS][PART_BYTES:]).raise_for_status()
    mine.put(f"{path}/files/{CONFIG}/parts/1", content=files[CONFIG]).raise_for_status()
    parts = [file["parts_received"] for file in mine.get(path).json()["files"]]
    assert parts == [[1], [1, 2]]
    for _ in range(2):
        done = mine.post(f"{path}/complete", json={})
        assert (done.status_code, done.headers["Location"]) == (202, path)
        assert done.json()["status"] == "completing"
    late = mine.post(f"{path}/abort", json={})
    assert (late.status_code, late.json()["code"]) == (409, "upload_ended")


def test_an_aborted_upload_takes_no_parts(mine: httpx.Client) -> None:
    path = opened(mine)
    assert [mine.post(f"{path}/abort").json()["status"] for _ in range(2)] == ["aborted"] * 2
    answer = mine.put(f"{path}/files/{CONFIG}/parts/1", content=SMALL[CONFIG])
    assert (answer.status_code, answer.json()["value"]) == (409, "aborted")


def test_uploads_are_listed_newest_first_and_found_by_adapter_and_status(
    mine: httpx.Client,
) -> None:
    paths = [opened(mine) for _ in range(3)]
    mine.post(f"{paths[1]}/abort").raise_for_status()

    def listed(**query: Any) -> dict[str, Any]:
        answer: dict[str, Any] = mine.get("/api/v1/uploads", params=query).json()
        return answer

    def ids(answer: dict[str, Any]) -> list[str]:
        return [f"/api/v1/uploads/{one['id']}" for one in answer["data"]]

    page = listed(limit=2)
    assert ids(page) == [paths[2], paths[1]]
    assert ids(listed(cursor=page["next_cursor"])) == [paths[0]]
    assert ids(listed(status="pending", adapter="support")) == [paths[2], paths[0]]
    assert ids(listed(adapter="other")) == []
    bad = mine.get("/api/v1/uploads", params={"cursor": "x"})
    assert (bad.status_code, bad.json()["field"]) == (400, "cursor")


def test_a_part_of_another_size_is_refused_declared_or_not(mine: httpx.Client) -> None:
    path = f"{opened(mine)}/files/{WEIGHTS}/parts/1"

    def undeclared(count: int) -> Iterator[bytes]:
        for _ in range(count):
            yield b"x" * 100

    for content in (b"x" * 999, b"x" * 1001, undeclared(9), undeclared(11)):
        answer = mine.put(path, content=content)
        assert answer.status_code == 400, answer.text
        assert answer.json()["code"] == "upload_part_size"
        assert answer.json()["rule"] == "1000 bytes"
    assert mine.put(path, content=b"x" * (PART_BYTES + 2**20 + 1)).status_code == 413
    assert mine.put(path, content=undeclared(10)).status_code == 200


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"adapter": 5}, "adapter"),
        ({"files": []}, "files"),
        ({"files": [{"name": CONFIG, "size_bytes": 0}]}, "files[0].size_bytes"),
        ({"files": [{"name": "x.rar", "size_bytes": 5}]}, "files"),
        ({"files": [{"name": "x.zip", "size_bytes": 5, "sha256": "no"}]}, "files[0].sha256"),
        ({"color": "red"}, "color"),
    ],
)
def test_an_upload_that_cannot_be_is_refused_by_field(
    mine: httpx.Client, changed: dict[str, Any], field: str
) -> None:
    answer = mine.post("/api/v1/uploads", json=announced(SMALL) | changed)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_at_most_sixteen_addresses_are_given_at_once(mine: httpx.Client) -> None:
    path = f"{opened(mine)}/part-urls"
    answer = mine.post(path, json={"file": WEIGHTS, "parts": [1] * 17})
    assert (answer.status_code, answer.json()["field"]) == (400, "parts")
    answer = mine.post(path, json={"file": WEIGHTS, "parts": [2]})
    assert (answer.status_code, answer.json()["code"]) == (400, "upload_part_unknown")
    answer = mine.post(path, json={"file": "other", "parts": [1]})
    assert (answer.status_code, answer.json()["code"]) == (404, "upload_file_not_found")


def test_a_neighbours_upload_is_404_whatever_is_asked_of_it(
    mine: httpx.Client, gateway: RunningGateway, neighbour: Tenant
) -> None:
    path = opened(mine)
    with gateway.client(neighbour.key) as theirs:
        for place in (path, f"/api/v1/uploads/{uuid4()}"):
            answers = [
                theirs.get(place),
                theirs.post(f"{place}/part-urls", json={"file": WEIGHTS, "parts": [1]}),
                theirs.put(f"{place}/files/{WEIGHTS}/parts/1", content=b"x" * 1000),
                theirs.post(f"{place}/complete"),
                theirs.post(f"{place}/abort"),
            ]
            assert [answer.status_code for answer in answers] == [404] * 5
            assert {answer.json()["code"] for answer in answers} == {"upload_not_found"}
        assert theirs.get("/api/v1/uploads").json()["data"] == []
    assert mine.get(path).json()["status"] == "pending"


def test_storage_tells_what_is_announced_and_what_may_be(mine: httpx.Client) -> None:
    before = mine.get("/api/v1/storage").json()
    opened(mine)
    after = mine.get("/api/v1/storage").json()
    announced_bytes = sum(map(len, SMALL.values()))
    assert after["reserved_bytes"] == before["reserved_bytes"] + announced_bytes
    assert after["stored_bytes"] + after["reserved_bytes"] <= after["limit_bytes"]
