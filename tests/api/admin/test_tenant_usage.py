from typing import Any

from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant, new_tenant
from tests.api.ledgers import customer_of, settled
from tests.api.running import RunningGateway
from tests.platform.metering.ledgers import MIDNIGHT

URL = "/api/v1/admin/usage"
FIRST: dict[str, Any] = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-02T00:00:00Z"}


def ask(gateway: RunningGateway, key: str, **wanted: Any) -> Any:
    with gateway.client(key) as client:
        answer = client.get(URL, params=FIRST | wanted)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_operators_see_tenants_apart_or_together(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant, operator_key: str
) -> None:
    other = new_tenant(gateway_settings)
    settled(gateway_settings, customer, [MIDNIGHT, MIDNIGHT])
    settled(gateway_settings, other, [MIDNIGHT])
    both = {"tenant": [customer.name, other.name]}
    apart = ask(gateway, operator_key, **both, group_by="tenant")["data"][0]["results"]
    assert {(one["tenant"], one["requests"]) for one in apart} == {
        (customer.name, 2),
        (other.name, 1),
    }
    assert apart[0]["tenant_id"] is not None
    together = ask(gateway, operator_key, **both)
    assert together["data"][0]["results"][0]["requests"] == 3
    assert together["total"]["cost_micros"] == 21
    key_id = customer_of(gateway_settings, customer).key_ids[0]
    one = ask(gateway, operator_key, **both, api_key_id=str(key_id))
    assert one["total"]["requests"] == 2
    assert ask(gateway, operator_key, tenant="nobody")["total"]["requests"] == 0


def test_everybody_is_more_than_some(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant, operator_key: str
) -> None:
    settled(gateway_settings, customer, [MIDNIGHT])
    everybody = ask(gateway, operator_key)["total"]["requests"]
    assert everybody >= 1
    settled(gateway_settings, customer, [MIDNIGHT])
    assert ask(gateway, operator_key)["total"]["requests"] == everybody + 1
