"""`loraplex adapter quarantine` and `release`: an operator's, straight to the database."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from loraplex.adapters_registry.versions.views import VersionView
    from loraplex.platform.settings import Settings

Name = Annotated[str, typer.Argument(help="The adapter's name.")]
Number = Annotated[int, typer.Argument(min=1, help="The version's number.")]
Tenant = Annotated[str, typer.Option(help="Whose adapter it is.")]


def put_away(
    name: Name,
    number: Number,
    tenant: Tenant,
    reason: Annotated[str, typer.Option(help="Shown to the tenant and sent with the event.")],
) -> None:
    """Make a version uncallable from the next request on; for operators."""

    # Only here: the packages of the database take half a second, which `--help` need not wait.
    from loraplex.adapters_registry.versions import quarantine
    from loraplex.platform.audit.actors import Actor
    from loraplex.platform.operator_commands import in_transaction
    from loraplex.platform.secrets import SecretKeys
    from loraplex.platform.tenancy.administration import TenantAdministration

    async def action(session: "AsyncSession", settings: "Settings") -> "VersionView":
        administration = TenantAdministration(SecretKeys.from_settings(settings))
        owner = await administration.find_tenant(session, tenant)
        actor = Actor.command_line()
        return await quarantine.quarantine(session, actor, owner, name, number, reason)

    typer.echo(f"{in_transaction(action).model} is quarantined.")


def release(name: Name, number: Number, tenant: Tenant) -> None:
    """Undo a quarantine; for operators."""

    # Only here: the packages of the database take half a second, which `--help` need not wait.
    from loraplex.adapters_registry.versions import quarantine
    from loraplex.platform.audit.actors import Actor
    from loraplex.platform.operator_commands import in_transaction
    from loraplex.platform.secrets import SecretKeys
    from loraplex.platform.tenancy.administration import TenantAdministration

    async def action(session: "AsyncSession", settings: "Settings") -> "VersionView":
        administration = TenantAdministration(SecretKeys.from_settings(settings))
        owner = await administration.find_tenant(session, tenant)
        return await quarantine.release(session, Actor.command_line(), owner, name, number)

    typer.echo(f"{in_transaction(action).model} is in quarantine no more.")
