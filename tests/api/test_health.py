import os
import re
from pathlib import Path

import httpx

from loraplex.api.metrics import Metrics
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant
from tests.api.raw_calls import ENDLESS
from tests.api.running import RunningGateway, running_gateway
from tests.api.waiting import eventually

BASE = "smollm2-135m-instruct"


def test_a_gateway_with_everything_it_needs_is_ready(gateway: RunningGateway) -> None:
    with gateway.client() as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        answer = eventually(
            "readiness", lambda: (found := client.get("/readyz")).status_code == 200 and found
        )
    assert answer
    assert answer.json() == {
        "ready": True,
        "parts": dict.fromkeys(("gateway", "database", "object_store", "workers", "start"), "ok"),
        "switched": [],
    }


def test_metrics_have_vllms_names_and_bounded_labels(
    gateway: RunningGateway, tenant: Tenant
) -> None:
    with gateway.client(tenant.key) as client:
        body = {"model": BASE, "prompt": "Hi", "max_tokens": 3}
        client.post("/v1/completions", json=body).raise_for_status()
        client.get("/nothing/at/all")
        text = eventually(
            "the worker's first heartbeat",
            lambda: "vllm:num_requests_running{" in (seen := client.get("/metrics").text) and seen,
        )
    assert isinstance(text, str)
    whose = f'{{model_name="{BASE}",slo_class="standard",tenant="{tenant.name}"}}'
    for line in (
        f"vllm:generation_tokens_total{whose}",
        f'vllm:request_success_total{{finished_reason="length",model_name="{BASE}"}}',
        f"vllm:time_to_first_token_seconds_count{whose}",
        f"vllm:inter_token_latency_seconds_count{whose}",
        f"vllm:request_time_per_output_token_seconds_count{whose}",
        f"vllm:e2e_request_latency_seconds_count{whose}",
        "vllm:num_requests_running{",
        "vllm:num_requests_waiting{",
        "vllm:kv_cache_usage_perc{",
        'loraplex_http_requests_total{method="POST",route="/v1/completions",status="200"}',
        f'loraplex_calls_total{{model_name="{BASE}",outcome="completed"}}',
    ):
        assert line in text
    assert "/nothing" not in text


def test_the_calls_that_run_are_counted_while_they_run(
    gateway: RunningGateway, tenant: Tenant
) -> None:
    def running(client: httpx.Client) -> str:
        found = re.search(
            r"^loraplex_running_calls(?:{.*})? (\S+)$", client.get("/metrics").text, re.M
        )
        assert found is not None
        return found[1]

    with gateway.client() as observer, gateway.client(tenant.key) as client:
        body = ENDLESS | {"stream": True}
        with client.stream("POST", "/v1/completions", json=body) as answer:
            assert answer.status_code == 200
            eventually("the call", lambda: running(observer) == "1.0")
        eventually("its end", lambda: running(observer) == "0.0")


def test_on_a_public_address_metrics_are_for_operators(
    gateway_settings: Settings, registered_base: None, tenant: Tenant, operator_key: str
) -> None:
    public = gateway_settings.model_copy(update={"host": "0.0.0.0"})
    with running_gateway(public) as gateway:
        for key, status in [(None, 401), (tenant.key, 403), (operator_key, 200)]:
            with gateway.client(key) as client:
                assert client.get("/metrics").status_code == status


def test_metrics_made_without_a_shared_directory_are_this_process_own(tmp_path: Path) -> None:
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ
    first, second = Metrics(), Metrics()
    first.calls.ended.labels(BASE, "completed").inc()
    fleet = type("NoFleet", (), {"workers": lambda self: []})()
    counted = f'loraplex_calls_total{{model_name="{BASE}",outcome="completed"}} 1.0'.encode()
    assert counted in first.text(fleet)
    assert counted not in second.text(fleet)
