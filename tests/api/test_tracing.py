"""One trace from the client over gateway and worker to a background job, by OTLP."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.tracing import NO_TRACING, start_tracing
from loraplex.platform.database.relay import publish_batch
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.processes import running
from loraplex.platform.embedded.valkey import Valkey
from loraplex.platform.jobs import make_celery
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant, running_worker
from tests.api.running import running_gateway
from tests.api.waiting import eventually
from tests.engine.worker.echo_engine import EchoEngine
from tests.otlp_receiver import OtlpReceiver, ReceivedSpan, otlp_receiver
from tests.platform.jobs_worker import worker as jobs_worker

TRACE, CLIENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
JOB = "loraplex.adapters_registry.validate_version"
PROMPT, ADAPTER = "the marker of a prompt", "marker-adapter"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        for name, value in receiver.environment.items():
            monkeypatch.setenv(name, value)
        yield receiver


def test_a_trace_goes_on_in_gateway_worker_and_job(
    receiver: OtlpReceiver,
    gateway_settings: Settings,
    registered_base: None,
    table: ModuleTable,
    customer: Tenant,
    tmp_path: Path,
) -> None:
    valkey = Valkey(tmp_path / "valkey", free_port())
    changes = {"broker_url": valkey.url, "data_dir": tmp_path}
    settings = Settings.model_validate(gateway_settings.model_dump() | changes)
    worker_tracing = start_tracing("worker", receiver.environment)
    with (
        running_worker(settings, table, EchoEngine(step_seconds=0.002), worker_tracing),
        running_gateway(settings) as gateway,
        gateway.client(customer.key) as client,
    ):
        client.headers["traceparent"] = f"00-{TRACE}-{CLIENT}-01"
        body = {"model": table.base_name, "prompt": PROMPT, "max_tokens": 3}
        client.post("/v1/completions", json=body).raise_for_status()
        files = {
            "adapter_config": ("adapter_config.json", b"{}"),
            "adapter_model": ("adapter_model.safetensors", b"x" * 100),
        }
        client.post(f"/api/v1/adapters/{ADAPTER}/versions", files=files).raise_for_status()
    with running(valkey, tmp_path / "logs"), jobs_worker(settings, tmp_path):
        asyncio.run(publish_all(settings))
        spans = eventually(
            "the job's span",
            lambda: (found := named(receiver.spans)).get(JOB) and found,
            seconds=120,
        )
    assert isinstance(spans, dict)
    call, upload = spans["POST /v1/completions"], spans["POST /api/v1/adapters/{name}/versions"]
    assert {call.parent_id, upload.parent_id} == {CLIENT}
    parents = {
        "admit": call,
        "generate": call,
        "settle": call,
        "worker": spans["generate"],
        "queue": spans["worker"],
        "prefill": spans["worker"],
        "decode": spans["worker"],
        JOB: upload,
    }
    for name, parent in parents.items():
        assert spans[name].parent_id == parent.span_id, name
    services = {spans[name].service for name in (call.name, "worker", JOB)}
    assert services == {"loraplex-gateway", "loraplex-worker", "loraplex-jobs"}
    assert spans["worker"].seconds <= call.seconds
    for span in receiver.spans:
        assert not any(
            secret in span.text for secret in (PROMPT, ADAPTER, customer.key, customer.name)
        )


async def publish_all(settings: Settings) -> None:
    """What the relay does."""
    assert settings.database_system_url is not None
    database = Database(settings.database_system_url.get_secret_value(), pool_size=1)
    try:
        while await publish_batch(database, make_celery(settings)):
            pass
    finally:
        await database.dispose()


def named(spans: list[ReceivedSpan]) -> dict[str, ReceivedSpan]:
    """This test's spans; each name came once in it."""
    return {span.name: span for span in spans if span.trace_id == TRACE}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_without_a_receiver_there_are_no_spans(environment: dict[str, str]) -> None:
    tracing = start_tracing("test", environment)
    assert tracing is NO_TRACING
    with tracing.span("nothing") as span:
        assert span.traceparent is None


def test_a_worker_that_traces_nothing_does_not_import_opentelemetry() -> None:
    code = (
        "import sys, loraplex.engine.worker, loraplex.engine.serving.traces;"
        "loraplex.engine.worker.start_tracing('worker', {});"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
