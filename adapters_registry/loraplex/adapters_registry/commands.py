"""The commands `loraplex adapter …` and `loraplex demo`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from loraplex.adapters_registry import import_commands, keeping_commands, quarantine_commands
from loraplex.adapters_registry.alias_commands import alias
from loraplex.adapters_registry.rollout_commands import rollout
from loraplex.platform.management_commands import (
    LOCAL,
    UNREACHABLE,
    ApiKey,
    ApiUrl,
    AsJson,
    print_json,
)

if TYPE_CHECKING:
    from loraplex.adapters_registry.client import RegistryClient
    from loraplex.platform.management_client import Json

REJECTED = 1
PENDING = 4

adapter = typer.Typer(
    help="Upload adapters and see what became of them.", no_args_is_help=True, add_completion=False
)


@adapter.command()
def push(
    source: Annotated[
        Path, typer.Argument(help="What PEFT's save_pretrained wrote, or a .zip or .tar.gz of it.")
    ],
    name: Annotated[str, typer.Option(help="The adapter's name; it is made when missing.")],
    api_key: ApiKey,
    api_url: ApiUrl = LOCAL,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for validation.")] = 120,
) -> None:
    """Upload an adapter as a new version and wait until it is ready.

    A push that was interrupted goes on where it was when it is run again. Exits with 0 when the
    version is ready, 1 when it is rejected or refused, 3 when the platform cannot be reached, 4
    when validation takes longer than --timeout.
    """
    from loraplex.adapters_registry.client import adapter_files
    from loraplex.adapters_registry.pushing import LocalFile, push_files

    with connected(api_url, api_key) as client:
        files = [LocalFile.of(path) for path in adapter_files(source)]
        with bar() as progress:
            task = progress.add_task(source.name, total=sum(file.size_bytes for file in files))
            number = push_files(
                client, name, files, lambda sent: progress.advance(task, sent), timeout
            )
        version = client.wait(name, number, timeout)
    tell(version)
    if version["status"] == "rejected":
        raise typer.Exit(REJECTED)


@adapter.command("list")
def list_(api_key: ApiKey, api_url: ApiUrl = LOCAL, as_json: AsJson = False) -> None:
    """List your adapters."""
    with connected(api_url, api_key) as client:
        found = client.adapters()
    if as_json:
        print_json(found)
        return
    table = Table("adapter", "newest", "status", "base", box=None)
    for row in found:
        latest = row["latest_version"]
        newest, status = (f"v{latest['version']}", latest["status"]) if latest else ("-", "-")
        table.add_row(row["name"], newest, status, row["base"])
    Console().print(table if found else "No adapters yet: `loraplex adapter push` uploads one.")


@adapter.command()
def show(name: str, api_key: ApiKey, api_url: ApiUrl = LOCAL, as_json: AsJson = False) -> None:
    """Show an adapter's versions, newest first, and why any was rejected."""
    with connected(api_url, api_key) as client:
        versions = client.versions(name)
    if as_json:
        print_json(versions)
        return
    for version in versions:
        tell(version)


adapter.add_typer(alias, name="alias")
adapter.add_typer(rollout, name="rollout")
for _command in (
    keeping_commands.pin,
    keeping_commands.unpin,
    keeping_commands.rm,
    keeping_commands.restore,
):
    adapter.command()(_command)
adapter.command("import")(import_commands.import_)
adapter.command("quarantine")(quarantine_commands.put_away)
adapter.command("release")(quarantine_commands.release)


def demo() -> None:
    """Make the demo's tenants, keys and adapters, and write credentials.json."""
    from loraplex.adapters_registry.demo import run

    run()


@contextmanager
def connected(api_url: str, api_key: str) -> Iterator[RegistryClient]:
    """A client; what it raises becomes a message and an exit code."""
    from loraplex.adapters_registry import client, pushing
    from loraplex.platform.management_client import ApiRefused, ApiUnreachable

    codes: dict[type[Exception], int] = {
        client.FolderUnusable: REJECTED,
        ApiRefused: REJECTED,
        ApiUnreachable: UNREACHABLE,
        client.ValidationPending: PENDING,
        pushing.UploadUnfinished: PENDING,
    }
    try:
        with client.RegistryClient(api_url, api_key) as opened:
            yield opened
    except tuple(codes) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(codes[type(error)]) from None


def bar() -> Progress:
    """A progress bar on standard error, silent where that is no terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def tell(version: Json) -> None:
    """One version in plain words."""
    size = f"{version['size_bytes'] / 1e6:.1f} MB"
    match version["status"]:
        case "ready":
            rank = version["max_rank"]
            typer.echo(f"{version['model']} is ready (rank {rank}, {size}).")
        case "rejected":
            typer.echo(f"{version['model']} was rejected:")
            for reason in version["reasons"]:
                typer.echo(f"  - {reason['message']}")
        case status:
            typer.echo(f"{version['model']} is {status} ({size}).")
