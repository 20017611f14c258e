import msgspec
from msgspec.structs import replace

from loraplex.api.admin.schemas import TenantList, TierLoad, WorkerList, WorkerLoad
from loraplex.engine.protocol import workers
from loraplex.engine.serving.server import WorkerServer
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway
from tests.api.test_worker_metrics import LOAD
from tests.api.waiting import eventually


def test_an_operator_sees_the_workers_and_their_load(
    gateway: RunningGateway, operator_key: str, worker: WorkerServer
) -> None:
    def live() -> WorkerList | None:
        with gateway.client(operator_key) as client:
            found = WorkerList.model_validate_json(client.get("/api/v1/admin/workers").content)
        mine = [one for one in found.data if one.id == worker.registration.worker_id]
        return found if mine and mine[0].load is not None else None

    found = eventually("the worker's load", live)
    assert found is not None
    (one,) = found.data
    assert (one.state, one.role, one.base) == ("live", "unified", "smollm2-135m-instruct")
    assert one.incarnation == worker.registration.incarnation
    assert one.load is not None
    assert one.load.free_pages == 100


def test_the_load_on_the_wire_has_every_figure_that_a_worker_tells() -> None:
    assert list(WorkerLoad.model_fields) == list(workers.WorkerLoad.__struct_fields__)
    assert list(TierLoad.model_fields) == list(workers.TierLoad.__struct_fields__)
    told = replace(LOAD, tiers=tuple(workers.TierLoad(tier) for tier in workers.Tier))
    wired = WorkerLoad.model_validate_json(msgspec.json.encode(told))
    assert [tier.tier for tier in wired.tiers] == ["device", "host", "disk", "store"]


def test_an_operator_sees_the_tenants_in_pages(
    gateway: RunningGateway, operator_key: str, tenant: Tenant, neighbour: Tenant
) -> None:
    names: list[str] = []
    cursor: str | None = ""
    with gateway.client(operator_key) as client:
        while cursor is not None:
            query = {"limit": 1} | ({"cursor": cursor} if cursor else {})
            answer = client.get("/api/v1/admin/tenants", params=query)
            page = TenantList.model_validate_json(answer.content)
            names += [one.name for one in page.data]
            cursor = page.next_cursor
    assert {tenant.name, neighbour.name} <= set(names)
    assert names == sorted(names)
