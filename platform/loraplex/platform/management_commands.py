"""What commands on the management API share: options, exit codes, tables, JSON.

Exit codes: 0 done, 1 refused, 2 not understood (typer's own), 3 the platform cannot be reached.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from loraplex.platform.management_client import (
    ApiRefused,
    ApiUnreachable,
    Json,
    ManagementClient,
)

REFUSED = 1
UNREACHABLE = 3
LOCAL = "http://127.0.0.1:8000"

ApiUrl = Annotated[str, typer.Option(envvar="LORAPLEX_API_URL", help="Where the platform answers.")]
ApiKey = Annotated[
    str,
    typer.Option(envvar="LORAPLEX_API_KEY", help="A tenant's key.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")]


@contextmanager
def connected(api_url: str, api_key: str) -> Iterator[ManagementClient]:
    """A client; what it raises becomes a message on standard error and an exit code."""
    try:
        with ManagementClient(api_url, api_key) as client:
            yield client
    except ApiRefused as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(REFUSED) from None
    except ApiUnreachable as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(UNREACHABLE) from None


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_found(
    found: Sequence[Json],
    as_json: bool,
    columns: Sequence[str],
    row: Callable[[Json], Sequence[object]],
    *,
    empty: str,
) -> None:
    """What a list of the API answered: as JSON, or as a table with a row of each."""
    if as_json:
        print_json(found)
    else:
        print_table(columns, [row(one) for one in found], empty=empty)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Rows under their columns' names, on one line each where the terminal has room."""
    if not rows:
        typer.echo(empty)
        return
    table = Table(*columns, box=None)
    for row in rows:
        table.add_row(*("-" if cell is None else str(cell) for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = 10_000  # what reads a pipe wants whole lines
        console.print(table, soft_wrap=True)
        return
    console.print(table)


def moment(text: str | None) -> str | None:
    """`2026-01-31 12:30:05` of an API's time."""
    return None if text is None else text[:19].replace("T", " ")
