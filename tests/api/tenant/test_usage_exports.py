import asyncio
import csv
from io import StringIO
from typing import Any

import pytest

from loraplex.adapters_registry.versions.models import Adapter, BaseModel
from loraplex.api.csv_files import cell
from loraplex.platform.metering.models import StorageHour
from loraplex.platform.metering.prices import FREE_PRICE_ID
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant, in_system
from tests.api.ledgers import customer_of, many, settled
from tests.api.running import RunningGateway
from tests.platform.metering.ledgers import MIDNIGHT

URL = "/api/v1/usage"
MARCH = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-04T00:00:00Z"}


def export(gateway: RunningGateway, tenant: Tenant, path: str, **wanted: Any) -> list[Any]:
    with gateway.client(tenant.key) as client:
        answer = client.get(f"{URL}/{path}", params=MARCH | wanted)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    return list(csv.DictReader(StringIO(answer.text, newline="")))


def test_every_request_is_in_the_file_once(
    gateway: RunningGateway,
    gateway_settings: Settings,
    customer: Tenant,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loraplex.api.tenant.usage.BLOCK_ROWS", 7)
    rows = many(gateway_settings, customer, 70, seed=3)
    found = export(gateway, customer, "requests/export")
    expected = sorted(rows, key=lambda row: (row.created_at, row.request_id))
    assert [line["request_id"] for line in found] == [row.request_id for row in expected]
    assert [int(line["cost_micros"]) for line in found] == [row.cost_micros for row in expected]
    assert found[0]["settled_at"].endswith("Z")


def test_the_file_of_buckets_adds_up_to_the_bill_with_its_storage(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant
) -> None:
    rows = many(gateway_settings, customer, 40, seed=4)
    hour = StorageHour(
        tenant_id=customer_of(gateway_settings, customer).tenant_id,
        hour_start=MIDNIGHT,
        byte_seconds=3600,
        price_id=FREE_PRICE_ID,
        cost_micros=11,
    )

    async def add(session: Any) -> None:
        session.add(hour)

    asyncio.run(in_system(gateway_settings, add))
    found = export(gateway, customer, "export", group_by=["adapter", "version"])
    assert sum(int(line["cost_micros"]) for line in found) == 11 + sum(r.cost_micros for r in rows)
    (storage,) = [line for line in found if line["kind"] == "storage"]
    assert (storage["start"], storage["byte_seconds"]) == ("2026-03-01T00:00:00Z", "3600")
    assert {line["currency"] for line in found} <= {"XXX", "USD"}


def test_more_than_a_file_may_have_is_refused_and_not_cut(
    gateway: RunningGateway,
    gateway_settings: Settings,
    customer: Tenant,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many(gateway_settings, customer, 6, seed=5)
    monkeypatch.setattr("loraplex.platform.metering.requests.MAX_EXPORTED_ROWS", 5)
    with gateway.client(customer.key) as client:
        answer = client.get(f"{URL}/requests/export", params=MARCH)
        too_long = client.get(
            f"{URL}/export", params={"bucket_width": "1m", "start": "2020-01-01T00:00:00Z"}
        )
    assert (answer.status_code, answer.json()["code"]) == (400, "export_too_large")
    assert (too_long.status_code, too_long.json()["code"]) == (400, "invalid_period")


def test_a_name_is_no_formula(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant
) -> None:
    tenant_id = customer_of(gateway_settings, customer).tenant_id

    async def add(session: Any) -> Any:
        base = BaseModel(name=f"base-{customer.name}", digest="sha256:0", module_table={})
        session.add(base)
        await session.flush()
        adapter = Adapter(tenant_id=tenant_id, name="=1+1", base_model_id=base.id)
        session.add(adapter)
        await session.flush()
        return adapter.id

    adapter_id = asyncio.run(in_system(gateway_settings, add))
    settled(
        gateway_settings,
        customer,
        [MIDNIGHT],
        model='=HYPERLINK("x"),\r\n',
        adapter_id=adapter_id,
        adapter_version=1,
    )
    (line,) = export(gateway, customer, "requests/export")
    assert line["model"] == '\'=HYPERLINK("x"),\r\n'
    assert line["adapter"] == "'=1+1"
    (bucket,) = [
        line
        for line in export(gateway, customer, "export", group_by=["adapter"])
        if line["kind"] == "requests"
    ]
    assert bucket["adapter"] == "'=1+1"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx", "\rx", "\nx"])
def test_every_start_of_a_formula_is_quoted(text: str) -> None:
    assert cell(text) == f"'{text}"
    assert cell(-1) == -1
