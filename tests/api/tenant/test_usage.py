from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from loraplex.platform.settings import Settings
from tests.api.conftest import CallFactory, Tenant
from tests.api.ledgers import many, settled
from tests.api.raw_calls import BASE, ENDLESS
from tests.api.running import RunningGateway
from tests.platform.metering.ledgers import MIDNIGHT

URL = "/api/v1/usage"
DAY = timedelta(days=1)
MARCH: dict[str, Any] = {
    "start": "2026-03-01T00:00:00Z",
    "end": "2026-03-04T00:00:00Z",
    "bucket_width": "1d",
}


def ask(gateway: RunningGateway, tenant: Tenant, path: str = URL, **parameters: Any) -> Any:
    with gateway.client(tenant.key) as client:
        answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_call_is_told_with_its_model_as_soon_as_it_is_settled(
    gateway: RunningGateway, customer: Tenant, call: CallFactory
) -> None:
    told = call(gateway, customer.key, ENDLESS | {"max_tokens": 3}).json()["usage"]
    usage = ask(gateway, customer, group_by=["model", "key"], bucket_width="1h")
    used = [result for bucket in usage["data"] for result in bucket["results"]]
    assert [(one["model"], one["requests"], one["output_tokens"]) for one in used] == [(BASE, 1, 3)]
    assert used[0]["prompt_tokens"] == told["prompt_tokens"]
    assert used[0]["uncached_tokens"] + used[0]["cached_tokens"] == told["prompt_tokens"]
    assert used[0]["api_key_id"] is not None
    assert len(usage["data"]) == 168
    (row,) = ask(gateway, customer, f"{URL}/requests")["data"]
    assert (row["model"], row["base_model"], row["outcome"]) == (BASE, BASE, "completed")
    assert 0 <= row["ttft_ms"] <= row["duration_ms"]
    assert "worker_id" not in row, "which machine serves whom is nobody's business"


def test_buckets_come_in_order_with_the_empty_ones_and_their_total(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant
) -> None:
    settled(gateway_settings, customer, [MIDNIGHT, MIDNIGHT, MIDNIGHT + 2 * DAY])
    usage = ask(gateway, customer, **MARCH)
    assert [(b["start"], len(b["results"])) for b in usage["data"]] == [
        ("2026-03-01T00:00:00Z", 1),
        ("2026-03-02T00:00:00Z", 0),
        ("2026-03-03T00:00:00Z", 1),
    ]
    assert usage["data"][0]["end"] == "2026-03-02T00:00:00Z"
    assert usage["data"][0]["storage"] == {"byte_seconds": 0, "cost_micros": 0}
    assert usage["total"] == {
        "requests": 3,
        "prompt_tokens": 30,
        "uncached_tokens": 18,
        "cached_tokens": 12,
        "output_tokens": 15,
        "cost_micros": 21,
        "storage": {"byte_seconds": 0, "cost_micros": 0},
    }
    assert usage["next_cursor"] is None


@pytest.mark.parametrize(("width", "limit"), [("1h", 7), ("1d", 1), ("1m", 1000)])
def test_pages_add_up_to_the_whole(
    width: str, limit: int, gateway: RunningGateway, gateway_settings: Settings, customer: Tenant
) -> None:
    rows = many(gateway_settings, customer, 60, seed=limit)
    found, starts, cursor = 0, [], None
    while True:
        asked = MARCH | {"bucket_width": width, "limit": limit}
        page = ask(gateway, customer, **asked, **({"cursor": cursor} if cursor else {}))
        starts += [bucket["start"] for bucket in page["data"]]
        found += page["total"]["cost_micros"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == sum(row.cost_micros for row in rows)
    assert len(starts) == len(set(starts)) == 3 * {"1m": 1440, "1h": 24, "1d": 1}[width]


def test_requests_come_newest_first_in_pages_and_through_filters(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant
) -> None:
    rows = many(gateway_settings, customer, 50, seed=11)
    expected = sorted(rows, key=lambda row: (row.created_at, row.request_id), reverse=True)
    found: list[Any] = []
    page: dict[str, Any] = {"next_cursor": None}
    while not found or page["next_cursor"]:
        after = {"cursor": page["next_cursor"]} if found else {}
        page = ask(gateway, customer, f"{URL}/requests", limit=20, **after)
        found += page["data"]
    assert [one["request_id"] for one in found] == [row.request_id for row in expected]
    second_day = {"start": "2026-03-02T00:00:00Z", "end": "2026-03-03T00:00:00Z"}
    some = ask(gateway, customer, f"{URL}/requests", model=["other"], **second_day)
    assert [one["request_id"] for one in some["data"]] == [
        row.request_id
        for row in expected
        if row.base_model == "other" and MIDNIGHT + DAY <= row.created_at < MIDNIGHT + 2 * DAY
    ]


def test_the_neighbours_usage_is_not_there(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant, neighbour: Tenant
) -> None:
    (row,) = settled(gateway_settings, customer, [MIDNIGHT])
    mine = {"api_key_id": str(row.api_key_id)}
    assert ask(gateway, customer, **MARCH, **mine)["total"]["requests"] == 1
    assert ask(gateway, neighbour, **MARCH, **mine)["total"]["requests"] == 0
    assert ask(gateway, neighbour, f"{URL}/requests", **mine)["data"] == []


@pytest.mark.parametrize(
    ("parameters", "code", "field"),
    [
        ({"start": "2026-03-01T00:00:01Z"}, "invalid_period", "start"),
        ({"end": "2026-03-01T12:00:00Z"}, "invalid_period", "end"),
        (
            {"start": "2026-03-02T00:00:00Z", "end": "2026-03-02T00:00:00Z"},
            "invalid_period",
            "end",
        ),
        ({"limit": 32}, "invalid_period", "limit"),
        ({"limit": 1441, "bucket_width": "1m"}, "invalid_value", "limit"),
        ({"limit": 0}, "invalid_value", "limit"),
        ({"start": "2026-03-01T00:00:00"}, "invalid_value", "start"),
        ({"start": "0001-01-01T00:00:00+14:00"}, "invalid_value", "start"),
        ({"bucket_width": "2d"}, "invalid_value", "bucket_width"),
        ({"group_by": "tenant"}, "invalid_value", "group_by[0]"),
        ({"api_key_id": "me"}, "invalid_value", "api_key_id[0]"),
        ({"model": "a\0b"}, "invalid_value", "model"),
        ({"version": str(2**31)}, "invalid_value", "version[0]"),
        ({"groupby": "key"}, "unknown_parameter", "groupby"),
        ({"cursor": "20260301"}, "invalid_cursor", "cursor"),
        ({"cursor": "20260301T0001"}, "invalid_cursor", "cursor"),
        ({"cursor": "19990101T0000"}, "invalid_cursor", "cursor"),
    ],
)
def test_a_question_that_is_none_is_refused_by_name(
    parameters: dict[str, Any], code: str, field: str, gateway: RunningGateway, customer: Tenant
) -> None:
    with gateway.client(customer.key) as client:
        answer = client.get(URL, params=parameters)
    assert answer.status_code == 400
    problem = answer.json()
    assert (problem["code"], problem["field"]) == (code, field)


def test_nobody_is_found_by_what_nobody_has(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant
) -> None:
    settled(gateway_settings, customer, [MIDNIGHT])
    for nobody in ({"adapter": "no-such"}, {"member_id": str(uuid4())}, {"model": "no-such"}):
        usage = ask(gateway, customer, **MARCH, **nobody)
        assert usage["total"]["requests"] == 0
        assert usage["total"]["storage"] is None


def test_without_a_period_a_page_ends_with_the_bucket_that_runs(
    gateway: RunningGateway, customer: Tenant
) -> None:
    before = datetime.now(UTC)
    for width, buckets in (("1m", 1440), ("1h", 168), ("1d", 31)):
        usage = ask(gateway, customer, bucket_width=width)
        assert len(usage["data"]) == buckets
        end = datetime.fromisoformat(usage["end"])
        assert before < end <= before + 2 * DAY
        assert usage["next_cursor"] is None
