"""`loraplex tenant`: made and listed, renamed, suspended and resumed, exported and deleted."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import typer
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor
from loraplex.platform.lifecycle import service
from loraplex.platform.operator_commands import in_transaction
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.commands import tenant
from loraplex.platform.tenancy.models import Tenant

__all__ = ["tenant"]

NameArgument = Annotated[str, typer.Argument(help="The tenant's name, or its id.")]


@tenant.command("show")
def show_tenant(name: NameArgument) -> None:
    """Show a tenant: how it is, why, and how far its deletion is."""

    async def action(session: AsyncSession, _: Settings) -> list[str]:
        row = await service.find_tenant(session, name)
        lines = [
            f"name\t{row.name}",
            f"id\t{row.id}",
            f"display name\t{row.display_name}",
            f"state\t{row.state}",
            f"reason\t{row.state_reason or ''}",
            f"since\t{_time(row.state_changed_at or row.created_at)}",
        ]
        going = await service.find_deletion(session, row)
        if going is not None:
            lines.append(f"deletion asked for\t{_time(going.created_at)}")
            lines.append(f"deletion finished\t{_time(going.finished_at)}")
        return lines

    for line in in_transaction(action):
        typer.echo(line)


@tenant.command("rename")
def rename_tenant(
    name: NameArgument, display_name: Annotated[str, typer.Argument(help="The name to show.")]
) -> None:
    """Give a tenant another name to show. The name it is called by never changes."""

    async def action(session: AsyncSession, _: Settings) -> Tenant:
        row = await service.find_tenant(session, name)
        return await service.change(session, Actor.command_line(), row, display_name=display_name)

    typer.echo(f"{in_transaction(action).name} is shown as {display_name}.")


@tenant.command("suspend")
def suspend_tenant(
    name: NameArgument, reason: Annotated[str, typer.Option(help="Why, for other operators.")]
) -> None:
    """Refuse a tenant on every gateway within five seconds; its calls are ended."""

    async def action(session: AsyncSession, _: Settings) -> Tenant:
        row = await service.find_tenant(session, name)
        return await service.suspend(session, Actor.command_line(), row, reason)

    typer.echo(f"{in_transaction(action).name} is suspended.")


@tenant.command("resume")
def resume_tenant(name: NameArgument) -> None:
    """Let a suspended tenant in again."""

    async def action(session: AsyncSession, _: Settings) -> Tenant:
        row = await service.find_tenant(session, name)
        return await service.resume(session, Actor.command_line(), row)

    typer.echo(f"{in_transaction(action).name} is active.")


@tenant.command("export")
def export_tenant(name: NameArgument) -> None:
    """Ask for an archive of all that a tenant has, and print its id."""

    async def action(session: AsyncSession, _: Settings) -> UUID:
        row = await service.find_tenant(session, name)
        return (await service.request_export(session, Actor.command_line(), row)).id

    typer.echo(in_transaction(action))


@tenant.command("delete")
def delete_tenant(
    name: NameArgument,
    confirm: Annotated[str, typer.Option(prompt="The tenant's name once more")],
) -> None:
    """Delete a tenant for good. Its ledger stays, without names; a job does the work."""

    async def action(session: AsyncSession, _: Settings) -> str:
        row = await service.find_tenant(session, name)
        await service.begin_deletion(session, Actor.command_line(), row, confirm=confirm)
        return str(row.id)

    tenant_id = in_transaction(action)
    typer.echo(f"{name} is being deleted: `loraplex tenant show {tenant_id}` tells how far it is.")


def _time(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat()
