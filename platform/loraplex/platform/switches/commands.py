"""`loraplex switch` and `loraplex pool`: straight to the database, so that they work without a
gateway."""

from datetime import UTC
from typing import Annotated

import typer
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor
from loraplex.platform.database.pages import MAX_LIMIT, PageRequest
from loraplex.platform.management_commands import print_table
from loraplex.platform.operator_commands import in_transaction
from loraplex.platform.settings import Settings
from loraplex.platform.switches import service
from loraplex.platform.switches.models import Switch
from loraplex.platform.switches.names import draining

switch = typer.Typer(
    help="Turn changes, uploads or a pool off for everybody.", no_args_is_help=True
)
pool = typer.Typer(help="Drain pools of workers.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="read_only, no_uploads or drain_pool:<pool>.")]
Pool = Annotated[str, typer.Argument(help="The pool's name, as `--pool` gave it to its workers.")]
Reason = Annotated[str, typer.Option(help="Why; kept with the switch and in the audit log.")]


@switch.command("list")
def list_switches() -> None:
    """List the switches: name, on or off, since when, by whom and why."""

    async def action(session: AsyncSession, _: Settings) -> list[Switch]:
        found: list[Switch] = []
        wanted: PageRequest | None = PageRequest(MAX_LIMIT)
        while wanted is not None:
            page = await service.page_of_switches(session, wanted)
            found += page.items
            wanted = PageRequest(MAX_LIMIT, page.next_cursor) if page.next_cursor else None
        return found

    rows = [
        (
            row.name,
            "on" if row.is_on else "off",
            f"{row.changed_at.astimezone(UTC):%F %T}",
            row.changed_by,
            row.reason,
        )
        for row in in_transaction(action)
    ]
    print_table(("Switch", "State", "Since (UTC)", "By", "Reason"), rows, empty="No switches.")


@switch.command("on")
def switch_on(name: Name, reason: Reason) -> None:
    """Turn a switch on; within five seconds it is so on every gateway."""
    _turn(name, is_on=True, reason=reason)


@switch.command("off")
def switch_off(name: Name, reason: Reason) -> None:
    """Turn a switch off again."""
    _turn(name, is_on=False, reason=reason)


@pool.command("drain")
def drain_pool(name: Pool, reason: Reason) -> None:
    """Send a pool's workers no new requests; those that run there end by themselves."""
    _turn(draining(name), is_on=True, reason=reason)


@pool.command("undrain")
def undrain_pool(name: Pool, reason: Reason) -> None:
    """Let a pool's workers take requests again."""
    _turn(draining(name), is_on=False, reason=reason)


def _turn(name: str, *, is_on: bool, reason: str) -> None:
    async def action(session: AsyncSession, _: Settings) -> Switch:
        return await service.turn(session, Actor.command_line(), name, is_on=is_on, reason=reason)

    turned = in_transaction(action)
    typer.echo(f"{turned.name} is {'on' if turned.is_on else 'off'}.")
