"""`loraplex prefix`: straight to the database, so that it works without a gateway."""

from datetime import UTC
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor
from loraplex.platform.database.pages import MAX_LIMIT, PageRequest
from loraplex.platform.management_commands import print_table
from loraplex.platform.operator_commands import in_transaction
from loraplex.platform.public_prefixes import service
from loraplex.platform.public_prefixes.models import PublicPrefix
from loraplex.platform.settings import Settings

prefix = typer.Typer(help="Declare system prompts public.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The prefix's name.")]
File = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="Its text, in UTF-8.")
]


@prefix.command("list")
def list_prefixes() -> None:
    """List what is public: name, size, since when and by whom."""

    async def action(session: AsyncSession, _: Settings) -> list[PublicPrefix]:
        return (await service.page_of_prefixes(session, PageRequest(MAX_LIMIT))).items

    rows = [
        (
            row.name,
            f"{len(row.text.encode())} bytes",
            f"{row.declared_at.astimezone(UTC):%F %T}",
            row.declared_by,
        )
        for row in in_transaction(action)
    ]
    print_table(("Name", "Size", "Since (UTC)", "By"), rows, empty="Nothing is public.")


@prefix.command("declare")
def declare(name: Name, file: File) -> None:
    """Make a text public, in place of what had the name; a line break at its end does not count.

    In force within five seconds on every gateway whose chat template takes the text.
    """
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter("it is not UTF-8", param_hint="FILE") from error
    text = text.removesuffix("\n").removesuffix("\r")

    async def action(session: AsyncSession, _: Settings) -> None:
        await service.declare(session, Actor.command_line(), name, text)

    in_transaction(action)
    typer.echo(f"{name} is public.")


@prefix.command("withdraw")
def withdraw(name: Name) -> None:
    """Make a text private again."""

    async def action(session: AsyncSession, _: Settings) -> None:
        await service.withdraw(session, Actor.command_line(), name)

    in_transaction(action)
    typer.echo(f"{name} is not public any more.")
