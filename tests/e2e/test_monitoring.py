"""What a running platform tells: metrics for rules and dashboards, and logs without secrets."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from loraplex.platform.jobs import make_celery
from loraplex.platform.settings import Settings
from tests.deploy.promql import wanted_by
from tests.deploy.queries import queries, recorded
from tests.e2e.conftest import ADAPTERS, BASE, Platform, wait_for

MARKER = "zebra-marker-of-a-prompt"
Scrape = dict[str, list[dict[str, str]]]


def scrape(url: str, key: str | None = None) -> Scrape:
    """The labels of every series, by name, as Prometheus' parser reads them."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    text = httpx.get(f"{url}/metrics", headers=headers, timeout=30).raise_for_status().text
    found: Scrape = defaultdict(list)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name].append(sample.labels)
    return found


@pytest.fixture(scope="module")
def used(platform: Platform) -> Platform:
    """The platform after requests that went well, were refused, and failed."""
    folder = next(path for path in sorted(ADAPTERS.iterdir()) if path.is_dir())
    tenant = next(iter(platform.credentials["tenants"]))
    key = platform.key(tenant)
    platform.upload(key, "watched", folder)
    with platform.client(key) as client:
        for model in (BASE, "watched"):
            body: dict[str, Any] = {
                "model": model,
                "messages": [{"role": "user", "content": f"Say hello. {MARKER}"}],
                "max_tokens": 4,
            }
            client.post("/v1/chat/completions", json=body).raise_for_status()
            streamed = client.post("/v1/chat/completions", json=body | {"stream": True})
            assert "[DONE]" in streamed.text
        broken = {
            part: (name, b"{}")
            for part, name in (
                ("adapter_config", "adapter_config.json"),
                ("adapter_model", "adapter_model.safetensors"),
            )
        }
        client.post("/api/v1/adapters/broken/versions", files=broken).raise_for_status()
        for wrong in ({"model": "nobody"}, {"temperature": MARKER}, {"messages": MARKER}):
            assert client.post("/v1/chat/completions", json=body | wrong).status_code >= 400
        assert client.post("/v1/completions", content=MARKER).status_code == 400
        assert client.get(f"/v1/models?{MARKER}", headers={"X-Any": MARKER}).status_code == 200
    with platform.client(key[:-1] + "x") as stranger:
        assert stranger.get("/v1/models").status_code == 401
    # Beat asks for it every five minutes.
    make_celery(Settings(data_dir=platform.data_dir)).send_task("loraplex.check_invariants")
    return platform


def test_rules_and_dashboards_ask_only_for_what_there_is(used: Platform) -> None:
    def nothing_is_missing() -> bool:
        missing[:] = list(what_is_missing(scrape(used.base_url, used.admin_key)))
        return not missing

    missing: list[str] = []
    # Beat's jobs run in their own time, the first of some half a minute after the start.
    wait_for("every series", nothing_is_missing, 90, lambda: "\n".join(missing))


def what_is_missing(found: Scrape) -> Iterator[str]:
    for what, query in queries().items():
        for wanted in wanted_by(query):
            if wanted.name in recorded():
                continue
            series = found.get(wanted.name)
            if series is None:
                yield f"{what}: there is no {wanted.name}"
            elif not any(wanted.labels <= set(labels) for labels in series):
                yield f"{what}: {wanted.name} has no labels {set(wanted.labels)}"


def test_every_process_tells_metrics_that_prometheus_reads(used: Platform) -> None:
    services = json.loads((used.data_dir / "run" / "services.json").read_text())
    gateway = scrape(used.base_url, used.admin_key)
    controller = scrape(f"http://127.0.0.1:{services['internal_port']}")
    jobs = scrape(f"http://127.0.0.1:{used.jobs_metrics_port}")
    assert {one["process"] for one in gateway["loraplex_process_open_fds"]} == {
        "gateway",
        "controller",
        "jobs",
        "job",
        "beat",
    }
    assert gateway["loraplex_worker_resident_memory_bytes"]
    for other in (controller, jobs):
        assert other["loraplex_process_open_fds"] == gateway["loraplex_process_open_fds"]
        assert "loraplex_outbox_messages" in other
    assert not [name for name in controller if name.startswith("loraplex_worker_")]


def test_logs_tell_of_requests_and_of_no_prompt_or_key(used: Platform) -> None:
    logs = {file.name: file.read_text() for file in (used.data_dir / "logs").glob("*.log")}
    keys = [used.admin_key, *(used.key(name) for name in used.credentials["tenants"])]
    for name, text in (*logs.items(), ("serve", used.log)):
        assert MARKER not in text, name
        assert not [key for key in keys if key in text and name not in ("serve", "demo.log")], name
    (gateway,) = (text for name, text in logs.items() if name.startswith("gateway"))
    lines = [json.loads(line) for line in gateway.splitlines() if line.startswith("{")]
    calls = [line for line in lines if line.get("route") == "/v1/chat/completions"]
    calls = [line for line in calls if line["status"] == 200]
    assert calls
    assert all(line["request_id"] and line["tenant_id"] for line in calls)
    assert not any("trace_id" in line for line in lines)
