"""`loraplex bench serve`. Starts without numpy and matplotlib."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console

from loraplex.engine.benchmarks.errors import InvalidWorkload
from loraplex.engine.benchmarks.popularity import Popularity
from loraplex.engine.benchmarks.refusals import refusals
from loraplex.engine.benchmarks.serve.arrivals import Process
from loraplex.engine.benchmarks.serve.slo import parse_slo
from loraplex.engine.benchmarks.serve.targets import Target, demo_targets

if TYPE_CHECKING:
    from loraplex.engine.benchmarks.serve.summary import RateResult

DEFAULT_DURATION_SECONDS = 30.0


def serve_command(
    url: Annotated[
        str | None, typer.Option(help="A server with /v1/completions; else --data-dir's own.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="LORAPLEX_API_KEY", help="For --url.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Most popular first; many times. Else the demo's adapters."),
    ] = None,
    data_dir: Annotated[
        Path, typer.Option(envvar="LORAPLEX_DATA_DIR", help="Of a running `loraplex serve`.")
    ] = Path(".loraplex"),
    rate: Annotated[
        str, typer.Option(help="Requests a second; a list like 1,2,4 makes a sweep.")
    ] = "1",
    duration: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds of arrivals at each rate; 30 by default.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option(min=1, help="Requests at each rate, instead of a duration.")
    ] = None,
    arrivals: Annotated[Process, typer.Option(help="How requests arrive.")] = Process.POISSON,
    popularity: Annotated[
        Popularity, typer.Option(help="How models are chosen.")
    ] = Popularity.ZIPF,
    zipf_exponent: Annotated[float, typer.Option(min=0.0, help="1 is Zipf's law.")] = 1.0,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Of a prompt, prefix included.")] = 128,
    output_tokens: Annotated[int, typer.Option(min=1, help="Of an answer.")] = 32,
    prefix_tokens: Annotated[
        int, typer.Option(min=0, help="Of each prompt, the same in all of them.")
    ] = 0,
    ignore_eos: Annotated[
        bool, typer.Option(help="Ask for all output tokens; some servers know no such field.")
    ] = True,
    warm_up: Annotated[bool, typer.Option(help="Call each model once before measuring.")] = True,
    timeout: Annotated[float, typer.Option(min=0.1, help="Longest silence, in seconds.")] = 600.0,
    slo: Annotated[
        str | None, typer.Option(help="What a good request meets: ttft=500ms,tpot=100ms,e2e=8s")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of arrivals, models and prompts.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Write the sweep as .svg or .png (needs matplotlib).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a rate.")] = False,
) -> None:
    """Latency and goodput of a server under requests that arrive whether or not it keeps up."""
    with refusals():
        from loraplex.engine.benchmarks.serve.plot import check_plot
        from loraplex.engine.benchmarks.serve.plot import plot as draw
        from loraplex.engine.benchmarks.serve.report import print_table, warnings
        from loraplex.engine.benchmarks.serve.sweep import sweep
        from loraplex.engine.benchmarks.serve.workload import Workload

        if plot is not None:
            check_plot(plot)
        if requests is None and duration is None:
            duration = DEFAULT_DURATION_SECONDS
        workload = Workload(
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            prefix_tokens=prefix_tokens,
            process=arrivals,
            popularity=popularity,
            zipf_exponent=zipf_exponent,
            requests=requests,
            duration_seconds=duration,
            ignore_eos=ignore_eos,
            seed=seed,
        )
        base_url, targets = _targets(url, api_key, model or [], data_dir)
        objectives = {} if slo is None else parse_slo(slo)
        results = asyncio.run(
            _measure(
                sweep(
                    base_url,
                    targets,
                    workload,
                    parse_rates(rate),
                    objectives,
                    timeout_seconds=timeout,
                    warms_up=warm_up,
                ),
                as_json,
            )
        )
    if not as_json:
        print_table(results, Console())
    for sentence in warnings(results):
        typer.echo(sentence, err=True)
    if plot is not None:
        draw(results, plot)
    if not any(result.completed for result in results):
        raise typer.Exit(1)


def parse_rates(text: str) -> list[float]:
    """`1,2,4`; raises InvalidWorkload."""
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if not rates or not all(0 < rate < math.inf for rate in rates):
        raise InvalidWorkload(
            f"{text!r} are no rates; write requests a second, like 1,2,4.", field="rate", rule="> 0"
        )
    return rates


async def _measure(measured: AsyncIterator["RateResult"], as_json: bool) -> list["RateResult"]:
    """Collect the results; each is told as soon as it is known."""
    results = []
    async for result in measured:
        results.append(result)
        if as_json:
            typer.echo(msgspec.json.encode(result).decode())
        else:
            typer.echo(f"Measured {result.offered_rate:g} requests/s.", err=True)
    return results


def _targets(
    url: str | None, api_key: str | None, models: Sequence[str], data_dir: Path
) -> tuple[str, list[Target]]:
    if url is None:
        return demo_targets(data_dir, models)
    if not models:
        raise InvalidWorkload("--url needs at least one --model.", field="model")
    return url, [Target(model, api_key) for model in models]
