"""Gateways that lack something they need; no test here shares a worker."""

from pathlib import Path

import pytest

from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant, running_worker
from tests.api.running import running_gateway
from tests.api.waiting import eventually
from tests.engine.worker.echo_engine import EchoEngine

BASE = "smollm2-135m-instruct"


def test_what_is_not_ready_is_named(
    gateway_settings: Settings, registered_base: None, table: ModuleTable
) -> None:
    with running_gateway(gateway_settings) as gateway, gateway.client() as client:
        answer = client.get("/readyz")
        assert answer.status_code == 503
        parts = answer.json()["parts"]
        assert parts.pop("workers") == f"no live worker takes requests for {BASE}"
        assert set(parts.values()) == {"ok"}
        with running_worker(gateway_settings, table, EchoEngine()):
            eventually("readiness", lambda: client.get("/readyz").status_code == 200)


def test_a_gateway_waits_for_the_file_that_says_the_platform_is_set_up(
    gateway_settings: Settings, registered_base: None, table: ModuleTable, tmp_path: Path
) -> None:
    ready_file = tmp_path / "ready"
    waiting = gateway_settings.model_copy(update={"ready_file": ready_file})
    with (
        running_worker(waiting, table, EchoEngine()),
        running_gateway(waiting) as gateway,
        gateway.client() as client,
    ):
        eventually(
            "only the file to be missing",
            lambda: (
                [
                    part
                    for part, is_so in client.get("/readyz").json()["parts"].items()
                    if is_so != "ok"
                ]
                == ["start"]
            ),
        )
        ready_file.touch()
        eventually("readiness", lambda: client.get("/readyz").status_code == 200)


def test_an_older_schema_and_an_absent_store_are_named(
    gateway_settings: Settings, registered_base: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loraplex.api.gateway.expected_revision", lambda: "9999")
    alone = gateway_settings.model_copy(update={"s3_bucket": "no-such-bucket"})
    with running_gateway(alone) as gateway, gateway.client() as client:
        parts = client.get("/readyz").json()["parts"]
    assert "9999" in parts["database"]
    assert parts["object_store"] == "has no bucket"


def test_an_absent_database_is_503_everywhere_and_named(
    gateway_settings: Settings, registered_base: None, customer: Tenant
) -> None:
    assert gateway_settings.database_url is not None
    url = type(gateway_settings.database_url)("postgresql://nobody:x@127.0.0.1:1/none")
    with (
        running_gateway(gateway_settings.model_copy(update={"database_url": url})) as gateway,
        gateway.client(customer.key) as client,
    ):
        assert client.get("/readyz").json()["parts"]["database"] == "does not answer"
        answer = client.get("/v1/models")
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "database_unavailable"
        assert client.get("/healthz").status_code == 200
