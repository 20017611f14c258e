"""The rate sweep as a picture: what arrives and what is good above, p99 latencies below."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loraplex.engine.benchmarks.errors import InvalidWorkload
from loraplex.engine.benchmarks.serve.summary import Latencies, RateResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES: Final = (".svg", ".png")
_COLOURS: Final = {"ttft": "#0072b2", "tpot": "#d55e00", "e2e": "#555555"}
"""Told apart by people who see colours differently, too (Okabe and Ito)."""


def check_plot(file: Path) -> None:
    """Raises InvalidWorkload when no plot could be written at the end; costs no import."""
    from importlib.util import find_spec

    if file.suffix not in SUFFIXES:
        raise InvalidWorkload(
            f"A plot is an .svg or a .png, and {file.name} is neither.", field="plot"
        )
    if not file.parent.is_dir():
        raise InvalidWorkload(f"There is no folder {file.parent} for the plot.", field="plot")
    if find_spec("matplotlib") is None:
        raise InvalidWorkload(
            "--plot needs matplotlib: pip install 'loraplex[bench]'.", field="plot"
        )


def plot(results: Sequence[RateResult], file: Path) -> None:
    """Write the plot; the suffix chooses the format."""
    from matplotlib.figure import Figure

    results = sorted(results, key=lambda result: result.offered_rate)
    rates = [result.offered_rate for result in results]
    figure = Figure(figsize=(7, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    _draw_throughput(above, results, rates)
    _draw_latencies(below, results, rates)
    figure.savefig(file, dpi=150)


def _draw_throughput(axes: "Axes", results: Sequence[RateResult], rates: Sequence[float]) -> None:
    axes.plot(rates, rates, ":", color="#999999", label="offered")
    axes.plot(rates, [r.requests_per_s for r in results], "o-", color="#56b4e9", label="completed")
    slo = results[0].slo_ms
    if slo:
        limits = ", ".join(f"{name.upper()} ≤ {limit:g} ms" for name, limit in slo.items())
        good = [result.goodput_per_s or 0.0 for result in results]
        axes.plot(rates, good, "o-", color="#009e73", label=f"good ({limits})")
    axes.set_ylabel("requests / s")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()


def _draw_latencies(axes: "Axes", results: Sequence[RateResult], rates: Sequence[float]) -> None:
    for name, colour in _COLOURS.items():
        found: list[Latencies | None] = [getattr(result, f"{name}_ms") for result in results]
        points = [
            (rate, one.p99) for rate, one in zip(rates, found, strict=True) if one is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=colour, label=f"{name.upper()} p99")
        if name in results[0].slo_ms:
            axes.axhline(results[0].slo_ms[name], linestyle="--", color=colour, alpha=0.6)
    axes.set_xlabel("offered requests / s")
    axes.set_ylabel("ms (dashed: the objective)" if results[0].slo_ms else "ms")
    axes.set_yscale("log")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
