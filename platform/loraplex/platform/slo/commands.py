"""`loraplex slo`: classes of service, and whose they are; straight to the database."""

from typing import Annotated
from uuid import UUID

import typer
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor
from loraplex.platform.management_commands import print_table
from loraplex.platform.operator_commands import in_transaction
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.slo import service
from loraplex.platform.slo.classes import SloClasses
from loraplex.platform.tenancy.administration import TenantAdministration

slo = typer.Typer(help="Choose tenants' and keys' classes of service.", no_args_is_help=True)

TenantName = Annotated[str, typer.Option("--tenant", help="The tenant's name.")]
KeyId = Annotated[UUID | None, typer.Option("--key", help="One of its keys, by id.")]


@slo.command("list")
def list_choices(tenant: TenantName) -> None:
    """List a tenant's classes: its own, and those of its keys."""

    async def action(session: AsyncSession, settings: Settings) -> list[tuple[str, str]]:
        administration = TenantAdministration(SecretKeys.from_settings(settings))
        row = await administration.find_tenant(session, tenant)
        return [
            (str(one.api_key_id or "all keys"), one.slo_class)
            for one in await service.choices_of(session, row)
        ]

    print_table(("Key", "Class"), in_transaction(action), empty="The default class.")


@slo.command("choose")
def choose(
    slo_class: Annotated[str, typer.Argument(help="A name from LORAPLEX_SLO_CLASSES.")],
    tenant: TenantName,
    key: KeyId = None,
) -> None:
    """Give a tenant, or one of its keys, a class of service."""
    _choose(tenant, key, slo_class)


@slo.command("clear")
def clear(tenant: TenantName, key: KeyId = None) -> None:
    """Take a choice back: a key is then as its tenant, a tenant of the default class."""
    _choose(tenant, key, None)


def _choose(tenant: str, key: UUID | None, slo_class: str | None) -> None:
    async def action(session: AsyncSession, settings: Settings) -> None:
        if slo_class is not None:
            SloClasses.parse(settings.slo_classes, settings.slo_default_class).named(slo_class)
        administration = TenantAdministration(SecretKeys.from_settings(settings))
        row = await administration.find_tenant(session, tenant)
        await service.choose(session, Actor.command_line(), row, slo_class, key_id=key)

    in_transaction(action)
    typer.echo(f"{key or tenant}: {slo_class or 'no class of its own'}")
