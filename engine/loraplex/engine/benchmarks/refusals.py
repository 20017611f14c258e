"""How a benchmark's command says that it cannot run."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from loraplex.engine.protocol.errors import DomainError


@contextmanager
def refusals() -> Iterator[None]:
    """A refusal is one sentence and status 1, never a traceback."""
    try:
        yield
    except DomainError as error:
        typer.echo(f"loraplex bench: {error.message}", err=True)
        raise typer.Exit(1) from None
