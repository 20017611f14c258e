"""Reading the audit log: whose lines, which, in pages."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.conftest import Tenant
from tests.api.running import RunningGateway

HOOKS = ("https://hooks.example/1", "https://hooks.example/2", "https://hooks.example/3")


@pytest.fixture
def mine(gateway: RunningGateway, customer: Tenant) -> Iterator[httpx.Client]:
    """A tenant that has made three webhooks and deleted the first."""
    with gateway.client(customer.key) as client:
        made = [client.post("/api/v1/webhooks", json={"url": url}).json() for url in HOOKS]
        client.delete(f"/api/v1/webhooks/{made[0]['id']}").raise_for_status()
        yield client


def read(client: httpx.Client, path: str = "/api/v1/audit", **query: Any) -> list[dict[str, Any]]:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    lines: list[dict[str, Any]] = answer.json()["data"]
    return lines


def test_the_newest_line_comes_first_and_pages_hide_and_repeat_none(mine: httpx.Client) -> None:
    lines = read(mine)
    assert [line["action"] for line in lines] == [
        "webhook.deleted",
        *["webhook.created"] * 3,
        "api_key.created",
        "tenant.created",
    ]
    paged, cursor = [], None
    for _ in range(6):
        query = {"limit": "1"} | ({} if cursor is None else {"cursor": cursor})
        page = mine.get("/api/v1/audit", params=query).json()
        paged += page["data"]
        cursor = page["next_cursor"]
    assert (paged, cursor) == (lines, None)


def test_lines_are_found_by_action_actor_target_and_time(mine: httpx.Client) -> None:
    newest, third, second, first, *_ = read(mine)
    assert read(mine, action="webhook.deleted") == [newest]
    assert read(mine, target=first["target"]["id"]) == [newest, first]
    assert read(mine, target_kind="alias") == []
    assert len(read(mine, actor=first["actor"]["id"])) == 4
    assert read(mine, actor="00000000-0000-0000-0000-000000000000") == []
    span = {"since": second["created_at"], "until": newest["created_at"]}
    assert read(mine, **span) == [third, second]


def test_a_neighbour_reads_none_of_it_and_an_operator_everything(
    mine: httpx.Client,
    gateway: RunningGateway,
    customer: Tenant,
    neighbour: Tenant,
    operator_key: str,
) -> None:
    ids = {line["id"] for line in read(mine)}
    with gateway.client(neighbour.key) as other:
        assert not ids & {line["id"] for line in read(other)}
    with gateway.client(operator_key) as operator:
        lines = read(operator, "/api/v1/admin/audit", tenant=customer.name)
        assert {line["id"] for line in lines} == ids
        assert {line["tenant"] for line in lines} == {customer.name}
        assert ids <= {line["id"] for line in read(operator, "/api/v1/admin/audit", limit=200)}
        assert read(operator, "/api/v1/admin/audit", tenant="nobody") == []


@pytest.mark.parametrize(
    "query", [{"since": "yesterday"}, {"since": "2026-01-01T00:00:00"}, {"actor": "me"}]
)
def test_a_filter_that_means_nothing_is_refused(query: dict[str, str], mine: httpx.Client) -> None:
    answer = mine.get("/api/v1/audit", params=query)
    assert (answer.status_code, answer.json()["field"]) == (400, next(iter(query)))
