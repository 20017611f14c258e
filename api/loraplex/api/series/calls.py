"""Generation calls: how many, how long, how many tokens, and how many were as good as promised.

Names are vLLM's where the meaning is the same. The labels are the base model, the class of service
and the tenant, of whom only some have a label of their own (`series.tenants`).
"""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from loraplex.platform.slo.classes import SloClasses

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160)
TOKEN_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5)
WHOSE = ("model_name", "slo_class", "tenant")

MET, FAILED = "met", "failed"
"""Results of a call against its class, beside the names of objectives that were missed."""


@dataclass(frozen=True, slots=True)
class CallSeries:
    """The series of one base, class and tenant: looked up once a call, not once a token."""

    prompt_tokens: Counter
    generation_tokens: Counter
    time_to_first_token: Histogram
    inter_token: Histogram
    time_per_output_token: Histogram
    end_to_end: Histogram
    queue: Histogram
    prefill: Histogram


class CallMetrics:
    """Every series of calls."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, labels: tuple[str, ...] = WHOSE) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
            return Histogram(name, text, WHOSE, buckets=buckets, registry=registry)

        self._families = (
            counter("vllm:prompt_tokens", "Prompt tokens of calls that ran."),
            counter("vllm:generation_tokens", "Tokens generated."),
            histogram(
                "vllm:time_to_first_token_seconds", "From a request's arrival to its first token."
            ),
            histogram(
                "vllm:inter_token_latency_seconds",
                "Between two output steps of a sequence.",
                TOKEN_SECONDS,
            ),
            histogram(
                "vllm:request_time_per_output_token_seconds",
                "A sequence's mean time between tokens.",
                TOKEN_SECONDS,
            ),
            histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token."),
            histogram(
                "vllm:request_queue_time_seconds",
                "On the worker, from arrival to being scheduled; a wait for the adapter is in it.",
            ),
            histogram(
                "vllm:request_prefill_time_seconds",
                "On the worker, from being scheduled to the first token.",
            ),
        )
        self.ended = counter("loraplex_calls", "Generation calls ended.", ("model_name", "outcome"))
        self.finished = counter(
            "vllm:request_success", "Sequences finished.", ("model_name", "finished_reason")
        )
        self.slo_requests = counter(
            "loraplex_slo_requests",
            "Calls against their class: met, failed, or the first objective that was missed.",
            (*WHOSE, "result"),
        )
        self._objectives = Gauge(
            "loraplex_slo_objective_seconds",
            "What a class promises.",
            ["slo_class", "objective"],
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self._series: dict[tuple[str, str, str], CallSeries] = {}

    def of(self, base_name: str, slo_class: str, tenant: str) -> CallSeries:
        """`tenant` is a label's value, so there are few."""
        key = base_name, slo_class, tenant
        found = self._series.get(key)
        if found is None:
            children = (family.labels(*key) for family in self._families)
            found = self._series[key] = CallSeries(*children)  # type: ignore[arg-type]
        return found

    def tell_objectives(self, classes: SloClasses) -> None:
        """Export what is promised, for whoever compares."""
        for one in classes.by_name.values():
            for objective, seconds in one.objectives.items():
                self._objectives.labels(one.name, objective.value).set(seconds)
