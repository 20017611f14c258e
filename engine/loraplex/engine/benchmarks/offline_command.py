"""`loraplex bench offline`. Starts without torch."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from loraplex.engine.benchmarks.refusals import refusals

if TYPE_CHECKING:
    from loraplex.engine.benchmarks.offline import OfflineResult


def offline_command(
    model: Annotated[
        str, typer.Option(help="A model's directory, or a name in <data dir>/models.")
    ],
    adapter: Annotated[
        list[Path] | None, typer.Option(help="A PEFT adapter's folder; may be given many times.")
    ] = None,
    adapters_in_batch: Annotated[
        int, typer.Option(min=0, help="How many of them the sequences use in turn; 0 is the base.")
    ] = 0,
    sequences: Annotated[int, typer.Option(min=1, help="Sequences at once.")] = 16,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Of a sequence, for prefill.")] = 128,
    output_tokens: Annotated[int, typer.Option(min=2, help="Of a sequence, for decode.")] = 33,
    repeat: Annotated[int, typer.Option(min=1, help="Measurements; a line each.")] = 2,
    max_step_tokens: Annotated[
        int | None, typer.Option(min=1, help="A step's token budget; as served by default.")
    ] = None,
    pool_bytes: Annotated[
        int | None, typer.Option(min=1, help="The page pool; as served by default.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of the arithmetic; one a core by default.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a measurement.")] = False,
) -> None:
    """Prefill and decode throughput of an engine in this process, with no server around it."""
    from loraplex.engine.benchmarks.local_adapters import open_adapter
    from loraplex.engine.protocol.describe import load_or_describe, locate_model

    with refusals():
        data_dir = Path(os.environ.get("LORAPLEX_DATA_DIR", ".loraplex"))
        model_dir = locate_model(model, data_dir / "models")
        table = load_or_describe(model_dir, None, data_dir / "cache" / "models")
        adapters = [open_adapter(folder, table) for folder in adapter or ()]

        from loraplex.engine.benchmarks.local_engine import engine_config, local_engine
        from loraplex.engine.benchmarks.offline import OfflineBenchmark, check
        from loraplex.engine.benchmarks.throughput import Workload

        workload = Workload(
            sequences=sequences,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            adapters_in_batch=adapters_in_batch,
        )
        check(workload, len(adapters))
        config = engine_config(
            model_dir,
            table,
            device=device,
            pool_bytes=pool_bytes,
            max_step_tokens=max_step_tokens,
            threads=threads,
        )
        # All sequences run together, as the peer's do.
        running = max(sequences, config.max_running_requests)
        config = msgspec.structs.replace(config, max_running_requests=running)
        with local_engine(config, table) as core:
            benchmark = OfflineBenchmark(core, table, adapters, workload, config.max_step_tokens)
            _print_offline(benchmark.repeats(repeat), as_json)


def _print_offline(results: Iterator["OfflineResult"], as_json: bool) -> None:
    if as_json:
        for result in results:
            typer.echo(msgspec.json.encode(result).decode())
        return
    table = Table(box=None)
    for heading in ("Repeat", "Prefill tok/s", "Decode tok/s", "Step ms", "Peak RSS MiB"):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(
            str(result.repeat + 1),
            f"{result.prefill_tokens_per_s:.1f}",
            f"{result.decode_tokens_per_s:.1f}",
            f"{result.step_ms:.2f}",
            f"{result.peak_rss_bytes / 2**20:.0f}",
        )
    Console().print(table)
