"""What metrics, log lines and spans cost a request, and a scrape beside them.

    python -m tests.benchmarks.telemetry_cost

Times are of the processor, the best of several rounds.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic, process_time
from typing import Any, cast

from loraplex.engine.benchmarks.scripts import print_line

NAME = "telemetry_cost"
ROUNDS, CALLS, TOKENS = 7, 300, 100


def best_microseconds(work: Callable[[], object], calls: int) -> float:
    found = []
    for _ in range(ROUNDS):
        started = process_time()
        work()
        found.append((process_time() - started) / calls * 1e6)
    return min(found)


def main() -> None:
    """Counts in a shared folder, as a gateway does."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  log lines are written, not read
        calls()
        logs()
        spans()
        scrapes(Path(folder))


def calls() -> None:
    from prometheus_client import CollectorRegistry

    from loraplex.api.openai.observation import CallClock
    from loraplex.api.series.calls import CallMetrics
    from loraplex.engine.protocol.generation import RequestOutput, RequestTiming
    from loraplex.platform.slo.classes import SloClasses

    metrics = CallMetrics(CollectorRegistry())
    classes = SloClasses.parse("standard:ttft=5s,tpot=250ms", "standard")
    first = RequestOutput(
        request_id="r", token_ids=[1], output_tokens=1, timing=RequestTiming(0.1, 0, 0, 0.1)
    )
    later = RequestOutput(request_id="r", token_ids=[1], output_tokens=2)
    text = type("Text", (), {"output_tokens": TOKENS, "finish_reason": None})()
    choice = cast(Any, type("OneChoice", (), {"index": 0, "text": text})())

    def run(tokens: int) -> None:
        for _ in range(CALLS):
            clock = CallClock(
                metrics,
                base_name="base",
                slo_class=classes.default,
                tenant="acme",
                arrived_at=monotonic(),
            )
            clock.see(0, first)
            for _ in range(tokens - 1):
                clock.see(0, later)
            clock.finish("completed", 10, [choice])

    one = best_microseconds(lambda: run(1), CALLS)
    many = best_microseconds(lambda: run(TOKENS), CALLS)
    print_line(NAME, call_us=one, token_us=(many - one) / (TOKENS - 1))


def logs() -> None:
    from uuid import uuid4

    import structlog

    from loraplex.platform.logs import bind_request, bind_tenant, configure_logging

    configure_logging(json=True)
    log, tenant_id = structlog.get_logger("edge"), uuid4()

    def run() -> None:
        for _ in range(CALLS):
            with bind_request("r" * 32):
                bind_tenant(tenant_id)
                log.info("request", method="POST", route="/v1/completions", status=200)

    print_line(NAME, log_line_us=best_microseconds(run, CALLS))


def spans() -> None:
    from loraplex.engine.protocol.tracing import NO_TRACING, Tracing, start_tracing

    nobody_there = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    os.environ |= nobody_there | {"OTEL_BSP_SCHEDULE_DELAY": "600000"}
    for name, tracing in (("off", NO_TRACING), ("on", start_tracing("test", nobody_there))):

        def run(tracing: Tracing = tracing) -> None:
            for _ in range(CALLS):
                with tracing.span("admit"):
                    pass

        print_line(NAME, tracing=name, span_us=best_microseconds(run, CALLS))


def scrapes(folder: Path) -> None:
    from prometheus_client import CollectorRegistry

    from loraplex.api.series.calls import CallMetrics
    from loraplex.platform.shared_totals import SharedTotals

    metrics = CallMetrics(CollectorRegistry())
    for tenants in (21, 200):
        for number in range(tenants):
            for slo_class in ("interactive", "standard", "batch"):
                metrics.of("base", slo_class, f"tenant-{number}").queue.observe(0.1)
        totals = SharedTotals()
        lines = totals.text(folder).count("\n")
        found = best_microseconds(partial(totals.text, folder), 1)
        print_line(NAME, tenants=tenants, classes=3, scrape_ms=found / 1000, lines=lines)


if __name__ == "__main__":
    main()
