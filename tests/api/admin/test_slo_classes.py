"""Operators choose classes of service, and the engine is told whose turn comes first."""

from collections.abc import Iterator

import httpx
import pytest

from loraplex.engine.protocol.generation import GenerationRequest, Priority
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant
from tests.api.raw_calls import BASE
from tests.api.running import RunningGateway, running_gateway
from tests.api.talking_engine import TalkingEngine
from tests.api.waiting import eventually
from tests.engine.worker.echo_engine import EchoEngine

IN_FORCE_SECONDS = 5.0
CLASSES = (
    "fast:priority=interactive,fair_weight=4,ttft=1s;usual;slow:priority=batch,fair_weight=0.5"
)


@pytest.fixture(scope="module")
def engine() -> EchoEngine:
    return TalkingEngine()


@pytest.fixture(scope="module")
def weighing(gateway: RunningGateway, gateway_settings: Settings) -> Iterator[RunningGateway]:
    """A gateway with classes of its own."""
    changed = {"slo_classes": CLASSES, "slo_default_class": "usual"}
    with running_gateway(gateway_settings.model_copy(update=changed)) as running:
        yield running


@pytest.fixture
def operator(weighing: RunningGateway, operator_key: str) -> Iterator[httpx.Client]:
    with weighing.client(operator_key) as client:
        yield client


def choose(operator: httpx.Client, path: str, slo_class: str | None) -> list[dict[str, object]]:
    answer = operator.put(f"/api/v1/admin/{path}/slo-class", json={"slo_class": slo_class})
    assert answer.status_code == 200, answer.text
    told: list[dict[str, object]] = answer.json()["data"]
    return told


def test_the_engine_is_told_the_priority_of_the_key_and_the_weight_of_the_tenant(
    weighing: RunningGateway, operator: httpx.Client, customer: Tenant, engine: TalkingEngine
) -> None:
    def told() -> GenerationRequest:
        with weighing.client(customer.key) as client:
            body = {"model": BASE, "prompt": "la", "max_tokens": 1}
            client.post("/v1/completions", json=body).raise_for_status()
        return engine.taken[-1]

    def soon(priority: Priority, fair_weight: float) -> None:
        def is_told() -> bool:
            request = told()
            return (request.priority, request.fair_weight) == (priority, fair_weight)

        eventually(f"{priority.name} and {fair_weight}", is_told, IN_FORCE_SECONDS)

    request = told()
    assert (request.priority, request.fair_weight) == (Priority.STANDARD, 1.0)
    tenant_path = f"tenants/{customer.name}"
    (key,) = operator.get(f"/api/v1/admin/{tenant_path}/keys").json()["data"]
    choose(operator, tenant_path, "slow")
    soon(Priority.BATCH, 0.5)
    chosen = choose(operator, f"{tenant_path}/keys/{key['id']}", "fast")
    assert [one["slo_class"] for one in chosen] == ["slow", "fast"]
    soon(Priority.INTERACTIVE, 0.5)
    choose(operator, tenant_path, None)
    soon(Priority.INTERACTIVE, 1.0)


def test_operators_see_what_each_class_means(operator: httpx.Client) -> None:
    classes = operator.get("/api/v1/admin/slo-classes").json()["data"]
    assert classes[0] == {
        "name": "fast",
        "is_default": False,
        "priority": "interactive",
        "fair_weight": 4.0,
        "objectives": {"ttft": 1.0},
    }
    assert [(one["name"], one["priority"]) for one in classes[1:]] == [
        ("usual", "standard"),
        ("slow", "batch"),
    ]


def test_a_class_that_is_not_there_is_refused(operator: httpx.Client, customer: Tenant) -> None:
    path = f"/api/v1/admin/tenants/{customer.name}/slo-class"
    answer = operator.put(path, json={"slo_class": "none"})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_slo_class")
