"""Rates as a table for people."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from loraplex.engine.benchmarks.serve.summary import LAG_LIMIT_SECONDS, Latencies, RateResult

_HEADINGS: Final = (
    "Offered req/s",
    "Done",
    "Failed",
    "Good req/s",
    "Output tok/s",
    "TTFT ms",
    "TPOT ms",
    "ITL ms",
    "E2E ms",
)


def print_table(results: Sequence[RateResult], console: Console) -> None:
    """Latencies are p50 / p90 / p99."""
    table = Table(box=None, caption="Latencies are p50 / p90 / p99.", caption_justify="left")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(
            f"{result.offered_rate:g}",
            str(result.completed),
            str(sum(result.errors.values())),
            "–" if result.goodput_per_s is None else f"{result.goodput_per_s:.2f}",
            f"{result.output_tokens_per_s:.1f}",
            *map(_latencies, (result.ttft_ms, result.tpot_ms, result.itl_ms, result.e2e_ms)),
        )
    console.print(table)


def warnings(results: Iterable[RateResult]) -> list[str]:
    """What keeps a result from being the server's own."""
    sentences = []
    for result in results:
        if result.errors:
            kinds = ", ".join(f"{kind}: {count}" for kind, count in result.errors.items())
            sentences.append(f"At {result.offered_rate:g} req/s requests failed ({kinds}).")
        if not result.client_kept_up and result.client_lag_ms is not None:
            sentences.append(
                f"At {result.offered_rate:g} req/s this client was too slow: it sent 1 % of the "
                f"requests {result.client_lag_ms.p99:.0f} ms late or later, and up to "
                f"{LAG_LIMIT_SECONDS * 1e3:.0f} ms is fine. The latencies hold its delay too."
            )
    return sentences


def _latencies(latencies: Latencies | None) -> str:
    if latencies is None:
        return "–"
    return f"{latencies.p50:.0f} / {latencies.p90:.0f} / {latencies.p99:.0f}"
