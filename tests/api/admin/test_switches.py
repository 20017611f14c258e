"""Operators turn things off for everybody, and every gateway obeys within five seconds."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.settings import Settings
from loraplex.platform.switches.commands import pool as pool_commands
from loraplex.platform.switches.commands import switch as switch_commands
from tests.api.conftest import CallFactory, Tenant, in_system
from tests.api.raw_calls import BASE, ENDLESS
from tests.api.running import RunningGateway, running_gateway
from tests.api.tenant.owners import files
from tests.api.waiting import eventually
from tests.engine.worker.echo_engine import EchoEngine

IN_FORCE_SECONDS = 5.0
SWITCHES = "/api/v1/admin/switches"
POOL = "/api/v1/admin/pools/default"


@pytest.fixture(scope="module")
def other_gateway(gateway: RunningGateway, gateway_settings: Settings) -> Iterator[RunningGateway]:
    with running_gateway(gateway_settings) as other:
        yield other


@pytest.fixture
def operator(gateway: RunningGateway, operator_key: str) -> Iterator[httpx.Client]:
    """An operator, who leaves everything switched off behind."""
    with gateway.client(operator_key) as client:
        yield client
        for name in ("read_only", "no_uploads"):
            turn(client, name, is_on=False)
        client.post(f"{POOL}/undrain", json={"reason": "the test is over"}).raise_for_status()


@pytest.fixture
def others(other_gateway: RunningGateway, tenant: Tenant) -> Iterator[httpx.Client]:
    """The tenant at the gateway that the operator does not speak to."""
    with other_gateway.client(tenant.key) as client:
        yield client


@pytest.fixture
def mine(gateway: RunningGateway, tenant: Tenant) -> Iterator[httpx.Client]:
    with gateway.client(tenant.key) as client:
        yield client


def turn(client: httpx.Client, name: str, *, is_on: bool) -> dict[str, Any]:
    answer = client.put(f"{SWITCHES}/{name}", json={"is_on": is_on, "reason": "a test"})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def complete(client: httpx.Client) -> httpx.Response:
    return client.post("/v1/completions", json={"model": BASE, "prompt": "la la", "max_tokens": 2})


def test_read_only_refuses_changes_on_every_gateway_and_serves_models_on(
    operator: httpx.Client, mine: httpx.Client, others: httpx.Client, tenant: Tenant
) -> None:
    started = time.monotonic()
    told = turn(operator, "read_only", is_on=True)
    assert (told["name"], told["is_on"], told["reason"]) == ("read_only", True, "a test")
    here = mine.post("/api/v1/webhooks", json={"url": "https://hooks.example/a"})
    assert (here.status_code, here.json()["code"]) == (503, "read_only")
    assert int(here.headers["Retry-After"]) > 0
    eventually(
        "the other gateway to refuse",
        lambda: others.delete("/api/v1/adapters/none").status_code == 503,
        IN_FORCE_SECONDS,
    )
    assert time.monotonic() - started < IN_FORCE_SECONDS
    assert others.get("/api/v1/adapters").status_code == 200
    assert complete(others).status_code == 200
    signed_in = others.post("/api/v1/session", json={"api_key": tenant.key})
    assert signed_in.status_code == 200, signed_in.text
    ready = others.get("/readyz").json()
    assert (ready["ready"], ready["switched"]) == (True, ["read_only"])
    assert 'loraplex_switch_on{name="read_only"} 1.0' in others.get("/metrics").text
    turn(operator, "read_only", is_on=False)
    eventually(
        "the other gateway to change things again",
        lambda: others.delete("/api/v1/adapters/none").status_code == 404,
        IN_FORCE_SECONDS,
    )


def test_no_uploads_refuses_every_way_in_and_nothing_else(
    operator: httpx.Client, others: httpx.Client
) -> None:
    turn(operator, "no_uploads", is_on=True)
    sizes = [{"name": "adapter_config.json", "size_bytes": 2}]
    sizes.append({"name": "adapter_model.safetensors", "size_bytes": 9})
    source = {"kind": "hub", "repository": "acme/lora"}
    refused = [
        others.post("/api/v1/adapters/new/versions", files=files("pirate")),
        others.post("/api/v1/uploads", json={"adapter": "new", "files": sizes}),
        others.post("/api/v1/imports", json={"adapter": "new", "source": source}),
    ]
    told = [(one.status_code, one.json()["code"]) for one in refused]
    assert told == [(503, "uploads_off")] * 3
    webhook = others.post("/api/v1/webhooks", json={"url": "https://hooks.example/b"})
    assert webhook.status_code == 201
    assert complete(others).status_code == 200


def test_a_drained_pool_gets_no_new_requests_and_ends_those_it_has(
    operator: httpx.Client,
    others: httpx.Client,
    other_gateway: RunningGateway,
    engine: EchoEngine,
    tenant: Tenant,
    call: CallFactory,
) -> None:
    running = call(other_gateway, tenant.key, ENDLESS | {"stream": True, "max_tokens": 400})
    eventually("the stream to run", lambda: len(engine.running) == 1)
    drained = operator.post(f"{POOL}/drain", json={"reason": "new driver"})
    assert (drained.status_code, drained.json()["name"]) == (200, "drain_pool:default")
    ready = eventually(
        "the other gateway to know", lambda: others.get("/readyz").json()["switched"], 5
    )
    assert ready == ["drain_pool:default"]
    refused = complete(others)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_worker_available")
    [worker] = operator.get("/api/v1/admin/workers").json()["data"]
    assert worker["is_drained"]
    assert running.events()[-1] == "[DONE]"
    operator.post(f"{POOL}/undrain", json={"reason": "done"}).raise_for_status()
    eventually("requests to be taken", lambda: complete(others).status_code == 200, 5)


def test_a_switch_that_there_is_not_and_an_order_without_a_reason_are_refused(
    operator: httpx.Client,
) -> None:
    unknown = operator.put(f"{SWITCHES}/everything", json={"is_on": True, "reason": "a test"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "switch_not_found")
    pool = operator.post("/api/v1/admin/pools/nobodys/drain", json={"reason": "a test"})
    assert (pool.status_code, pool.json()["code"]) == (404, "pool_not_found")
    for body in ({"is_on": True}, {"is_on": True, "reason": ""}, {"is_on": 1, "reason": "a"}):
        assert operator.put(f"{SWITCHES}/read_only", json=body).status_code == 400
    assert not [one for one in operator.get(SWITCHES).json()["data"] if one["is_on"]]


def test_who_turned_it_from_where_is_in_the_audit_log(
    operator: httpx.Client, gateway_settings: Settings
) -> None:
    answer = operator.put(f"{SWITCHES}/read_only", json={"is_on": False, "reason": "to be sure"})

    async def find(session: Any) -> AuditEvent:
        request_id = answer.headers["x-request-id"]
        mine = select(AuditEvent).where(AuditEvent.request_id == request_id)
        event: AuditEvent = (await session.scalars(mine)).one()
        return event

    event: AuditEvent = asyncio.run(in_system(gateway_settings, find))
    assert (event.action, event.actor_kind, event.actor_label) == (
        "switch.turned_off",
        "operator",
        "test",
    )
    assert event.address == "127.0.0.1"
    assert event.after == {"is_on": False, "reason": "to be sure"}


def test_the_command_line_turns_them_without_a_gateway(
    operator: httpx.Client, mine: httpx.Client, services: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert services.database_system_url is not None
    url = services.database_system_url.get_secret_value()
    monkeypatch.setenv("LORAPLEX_DATABASE_SYSTEM_URL", url)
    runner = CliRunner()
    on = runner.invoke(switch_commands, ["on", "read_only", "--reason", "moving house"])
    # A gateway in this process may log beside it that it has heard.
    assert (on.exit_code, on.stdout.splitlines()[-1]) == (0, "read_only is on.")
    eventually(
        "it to be in force", lambda: mine.delete("/api/v1/adapters/none").status_code == 503, 5
    )
    listed = runner.invoke(switch_commands, ["list"]).stdout
    assert "moving house" in listed
    assert "command line (" in listed
    assert runner.invoke(switch_commands, ["off", "read_only", "--reason", "there"]).exit_code == 0
    mistyped = runner.invoke(pool_commands, ["drain", "nobodys", "--reason", "x"])
    assert (mistyped.exit_code, "nobodys" in mistyped.stderr) == (1, True)
    assert runner.invoke(pool_commands, ["undrain", "default", "--reason", "x"]).exit_code == 0
