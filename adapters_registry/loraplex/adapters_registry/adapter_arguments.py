"""How commands name an adapter and what belongs to it: arguments, and the path in the API."""

from typing import Annotated

import typer

from loraplex.platform.management_client import segment

Name = Annotated[str, typer.Argument(metavar="ADAPTER")]
Alias = Annotated[str, typer.Argument(metavar="ALIAS")]
Version = Annotated[int, typer.Argument(min=1, metavar="VERSION")]


def place(name: str, version: int | None = None) -> str:
    path = f"adapters/{segment(name)}"
    return path if version is None else f"{path}/versions/{version}"
