from loraplex.platform.settings import Settings
from tests.api.conftest import new_tenant
from tests.api.running import RunningGateway


def test_an_operator_sees_every_tenant_in_pages(
    gateway: RunningGateway, gateway_settings: Settings, operator_key: str
) -> None:
    made = {new_tenant(gateway_settings).name for _ in range(3)}
    names: list[str] = []
    cursor: str | None = None
    with gateway.client(operator_key) as client:
        while True:
            query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
            page = client.get("/api/v1/admin/tenants", params=query).json()
            assert len(page["data"]) <= 2
            names += [tenant["name"] for tenant in page["data"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
    assert names == sorted(set(names))
    assert made <= set(names)
