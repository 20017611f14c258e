"""What is counted in more places than one gateway; gateways add it up (`metrics_folder`).

Labels are bounded: codes of ours and classes of statuses, never names, addresses or tenants.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

ADAPTER_REJECTIONS = Counter(
    "loraplex_adapter_rejections",
    "Reasons for which uploaded versions were rejected; one version may have several.",
    ["reason"],
    registry=REGISTRY,
)
REFUSALS = Counter(
    "loraplex_refusals",
    "Requests refused, by API (openai or management) and the refusal's code.",
    ["api", "code"],
    registry=REGISTRY,
)
RECOVERED = Counter(
    "loraplex_recovered",
    "Requests settled for gateways that were gone, by how they ended as far as workers knew.",
    ["outcome"],
    registry=REGISTRY,
)
INVARIANT_VIOLATIONS = Gauge(
    "loraplex_invariant_violations",
    "Places where the ledger and what is derived from it disagree, at the last check: each is a"
    " defect, or somebody's doing.",
    ["invariant"],
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
WEBHOOK_ATTEMPTS = Counter(
    "loraplex_webhook_attempts",
    "Calls of tenants' webhooks, by what came back and whether the delivery was then given up.",
    ["outcome"],
    registry=REGISTRY,
)
WEBHOOKS_DISABLED = Counter(
    "loraplex_webhooks_disabled",
    "Webhooks that nothing more is sent to, because of how they answered.",
    ["reason"],
    registry=REGISTRY,
)
SWITCHES = Gauge(
    "loraplex_switch_on",
    "1 once all gateways of the machine have the kill switch in force; for drain_pool a count.",
    ["name"],
    registry=REGISTRY,
    multiprocess_mode="livemin",
)
JOBS = Counter(
    "loraplex_jobs",
    "Background jobs that ended, by how; one that failed is tried again by its sweeper.",
    ["task", "outcome"],
    registry=REGISTRY,
)
JOB_SECONDS = Histogram(
    "loraplex_job_seconds",
    "How long background jobs took.",
    ["task"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300),
    registry=REGISTRY,
)
OUTBOX_PUBLISHED = Counter(
    "loraplex_outbox_published", "Messages that the relay gave to the broker.", registry=REGISTRY
)

# What has not happened yet is 0, not absent: an alert sees the first time too.
for _outcome in ("completed", "failed", "lost"):
    RECOVERED.labels(_outcome)
for _outcome in ("delivered", "3xx", "4xx", "5xx", "no_answer"):
    WEBHOOK_ATTEMPTS.labels(_outcome)
