"""Writes Grafana's dashboards: `python deploy/grafana/generate.py`. A test holds them to this."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
TENANT = {"tenant": "loraplex_slo_requests_total", "slo_class": "loraplex_slo_requests_total"}
ENGINE = {"model_name": "loraplex_worker_up", "engine": "loraplex_worker_up"}


@dataclass(frozen=True)
class Panel:
    """A graph: queries by legend, in one unit of Grafana's."""

    title: str
    unit: str
    queries: dict[str, str]
    description: str = ""


@dataclass(frozen=True)
class Dashboard:
    """`variables` are labels that may be chosen, each with the series that has them."""

    name: str
    title: str
    variables: dict[str, str]
    panels: tuple[Panel, ...]


def quantile(share: float, name: str, by: str, where: str) -> str:
    return (
        f"histogram_quantile({share}, sum by (le, {by}) (rate({name}_bucket{{{where}}}"
        "[$__rate_interval])))"
    )


# Every gateway tells of every worker, so workers' series are taken once an engine.
OF_WORKER = 'model_name=~"$model_name", engine=~"$engine"'
OF_TENANT = 'tenant=~"$tenant", slo_class=~"$slo_class"'


def worker(name: str) -> str:
    return f"max by (engine) ({name}{{{OF_WORKER}}})"


def worker_rate(name: str, by: str = "engine") -> str:
    return f"max by ({by}) (rate({name}{{{OF_WORKER}}}[$__rate_interval]))"


def summed(by: str, name: str, where: str = "", how: str = "rate") -> str:
    braces = f"{{{where}}}" if where else ""
    return f"sum by ({by}) ({how}({name}{braces}[$__rate_interval]))"


def by_tier(name: str) -> str:
    """Of all workers together."""
    return f"sum by (tier) ({worker_rate(name, 'engine, tier')})"


def of_tier(name: str, condition: str = "") -> str:
    return f"max by (engine, tier) ({name}{{{OF_WORKER}}}{condition})"


def latency(title: str, name: str) -> Panel:
    return Panel(
        title,
        "s",
        {
            "p50 {{slo_class}}": quantile(0.5, name, "slo_class", OF_TENANT),
            "p99 {{slo_class}}": quantile(0.99, name, "slo_class", OF_TENANT),
        },
    )


FLEET = Dashboard(
    "fleet",
    "Loraplex: fleet",
    ENGINE,
    (
        Panel("Workers that answer", "short", {"{{engine}}": worker("loraplex_worker_up")}),
        Panel("Running", "short", {"{{engine}}": worker("vllm:num_requests_running")}),
        Panel("Waiting", "short", {"{{engine}}": worker("vllm:num_requests_waiting")}),
        Panel("KV in use", "percentunit", {"{{engine}}": worker("vllm:kv_cache_usage_perc")}),
        Panel(
            "Prompt tokens found in the prefix cache",
            "percentunit",
            {
                "{{engine}}": worker_rate("vllm:prefix_cache_hits_total")
                + " / "
                + worker_rate("vllm:prefix_cache_queries_total")
            },
        ),
        Panel("Preemptions", "ops", {"{{engine}}": worker_rate("vllm:num_preemptions_total")}),
        Panel(
            "Requests by status",
            "reqps",
            {"{{status}}": summed("status", "loraplex_http_requests_total")},
        ),
        Panel(
            "Refusals by code",
            "reqps",
            {"{{code}}": summed("code", "loraplex_refusals_total")},
        ),
        Panel(
            "Calls by outcome",
            "reqps",
            {"{{outcome}}": summed("outcome", "loraplex_calls_total")},
        ),
        Panel(
            "Memory of processes",
            "bytes",
            {
                "{{process}}": "sum by (process) (loraplex_process_resident_memory_bytes)",
                "{{engine}}": worker("loraplex_worker_resident_memory_bytes"),
            },
        ),
        Panel(
            "CPU of processes",
            "short",
            {
                "{{process}}": summed("process", "loraplex_process_cpu_seconds_total"),
                "{{engine}}": worker_rate("loraplex_worker_cpu_seconds_total"),
            },
        ),
        Panel(
            "Background jobs",
            "ops",
            {"{{task}} {{outcome}}": summed("task, outcome", "loraplex_jobs_total")},
        ),
        Panel(
            "Backlog",
            "short",
            {
                "outbox": "max(loraplex_outbox_messages)",
                "webhooks due": "max(loraplex_webhook_deliveries_due)",
            },
        ),
        Panel("Kill switches", "short", {"{{name}}": "max by (name) (loraplex_switch_on)"}),
    ),
)
TENANTS = Dashboard(
    "tenants",
    "Loraplex: tenants and objectives",
    TENANT,
    (
        Panel(
            "Good requests",
            "percentunit",
            {
                "{{slo_class}}": "sum by (slo_class) (rate(loraplex_slo_requests_total"
                f'{{{OF_TENANT}, result="met"}}[$__rate_interval])) / sum by (slo_class) '
                f"(rate(loraplex_slo_requests_total{{{OF_TENANT}}}[$__rate_interval]))"
            },
            "Of the requests that count against their class: met all its objectives.",
        ),
        Panel(
            "Why not",
            "reqps",
            {
                "{{result}}": "sum by (result) (rate(loraplex_slo_requests_total"
                f'{{{OF_TENANT}, result!="met"}}[$__rate_interval]))'
            },
        ),
        Panel(
            "Goodput by tenant",
            "reqps",
            {
                "{{tenant}}": "sum by (tenant) (rate(loraplex_slo_requests_total"
                f'{{{OF_TENANT}, result="met"}}[$__rate_interval]))'
            },
        ),
        latency("Time to first token", "vllm:time_to_first_token_seconds"),
        latency("Between tokens", "vllm:inter_token_latency_seconds"),
        latency("Mean time between tokens", "vllm:request_time_per_output_token_seconds"),
        latency("End to end", "vllm:e2e_request_latency_seconds"),
        latency("Queue", "vllm:request_queue_time_seconds"),
        latency("Prefill", "vllm:request_prefill_time_seconds"),
        Panel(
            "Objectives",
            "s",
            {
                "{{slo_class}} {{objective}}": "max by (slo_class, objective) "
                "(loraplex_slo_objective_seconds)"
            },
        ),
        Panel(
            "Time to first token, p99 by tenant",
            "s",
            {"{{tenant}}": quantile(0.99, "vllm:time_to_first_token_seconds", "tenant", OF_TENANT)},
        ),
        Panel(
            "Tokens generated by tenant",
            "short",
            {
                "{{tenant}}": "sum by (tenant) (rate(vllm:generation_tokens_total"
                f"{{{OF_TENANT}}}[$__rate_interval]))"
            },
        ),
    ),
)
ADAPTERS = Dashboard(
    "adapters",
    "Loraplex: adapters and tiers",
    ENGINE,
    (
        Panel(
            "Adapters in the pool",
            "short",
            {"{{engine}}": worker("loraplex_worker_resident_adapters")},
        ),
        Panel(
            "Loads into the pool",
            "ops",
            {"{{engine}}": worker_rate("loraplex_worker_adapter_loads_total")},
        ),
        Panel(
            "Pages",
            "short",
            {
                "adapters {{engine}}": worker("loraplex_worker_adapter_pages"),
                "cached {{engine}}": worker("loraplex_worker_cached_pages"),
                "free {{engine}}": worker("loraplex_worker_free_pages"),
            },
        ),
        Panel(
            "Found, by tier",
            "ops",
            {"{{tier}}": by_tier("loraplex_adapter_tier_hits_total")},
        ),
        Panel(
            "Asked of the next tier; of the store, failed",
            "ops",
            {"{{tier}}": by_tier("loraplex_adapter_tier_misses_total")},
        ),
        Panel(
            "Evictions",
            "ops",
            {"{{tier}}": by_tier("loraplex_adapter_tier_evictions_total")},
        ),
        Panel(
            "Tiers in use",
            "percentunit",
            {
                "{{engine}} {{tier}}": of_tier("loraplex_adapter_tier_bytes")
                + " / "
                + of_tier("loraplex_adapter_tier_budget_bytes", " > 0")
            },
        ),
        Panel(
            "Seconds of loads a second",
            "short",
            {"{{tier}}": by_tier("loraplex_adapter_tier_load_seconds_total")},
        ),
        Panel(
            "Wrong bytes",
            "ops",
            {"{{tier}}": by_tier("loraplex_adapter_tier_corrupt_total")},
        ),
        Panel(
            "Uploads rejected",
            "ops",
            {"{{reason}}": summed("reason", "loraplex_adapter_rejections_total")},
        ),
    ),
)
BILLING = Dashboard(
    "billing",
    "Loraplex: billing",
    {"tenant": "vllm:prompt_tokens_total"},
    (
        Panel(
            "Prompt tokens",
            "short",
            {"{{tenant}}": summed("tenant", "vllm:prompt_tokens_total", 'tenant=~"$tenant"')},
        ),
        Panel(
            "Output tokens",
            "short",
            {"{{tenant}}": summed("tenant", "vllm:generation_tokens_total", 'tenant=~"$tenant"')},
        ),
        Panel(
            "Bills left to recovery",
            "short",
            {"left": "sum(increase(loraplex_settlements_left_total[$__rate_interval]))"},
        ),
        Panel(
            "Bills recovered",
            "short",
            {"{{outcome}}": summed("outcome", "loraplex_recovered_total", how="increase")},
        ),
        Panel(
            "Calls of dead gateways not settled yet",
            "short",
            {"lapsed": "max(loraplex_reservations_lapsed)"},
        ),
        Panel(
            "Invariants that do not hold",
            "short",
            {"{{invariant}}": "max by (invariant) (loraplex_invariant_violations)"},
        ),
        Panel(
            "Webhooks",
            "ops",
            {"{{outcome}}": summed("outcome", "loraplex_webhook_attempts_total")},
        ),
    ),
)
DASHBOARDS = (FLEET, TENANTS, ADAPTERS, BILLING)


def rendered(dashboard: Dashboard) -> dict[str, Any]:
    """As Grafana imports it."""
    return {
        "uid": f"loraplex-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["loraplex"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_source(), *map(_variable, dashboard.variables.items())]},
        "panels": [_panel(number, panel) for number, panel in enumerate(dashboard.panels)],
    }


def _source() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }


def _variable(choice: tuple[str, str]) -> dict[str, Any]:
    label, series = choice
    return {
        "name": label,
        "type": "query",
        "datasource": SOURCE,
        "query": f"label_values({series}, {label})",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": SOURCE,
                "expr": query,
                "legendFormat": legend,
            }
            for place, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def text_of(dashboard: Dashboard) -> str:
    return json.dumps(rendered(dashboard), indent=2) + "\n"


if __name__ == "__main__":
    for one in DASHBOARDS:
        (FOLDER / f"{one.name}.json").write_text(text_of(one))
