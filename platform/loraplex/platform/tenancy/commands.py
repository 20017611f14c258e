"""`loraplex tenant`: what operators do by hand, on role `system`; and `loraplex key` beside it."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.admission.commands import limits
from loraplex.platform.audit.actors import Actor
from loraplex.platform.operator_commands import in_transaction
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import (
    MAX_CONCURRENT_REQUESTS,
    MAX_OPEN_UPLOADS,
    MAX_STORAGE_BYTES,
    TenantAdministration,
)
from loraplex.platform.tenancy.key_commands import key

__all__ = ["key", "tenant"]

Result = TypeVar("Result")
Action = Callable[[AsyncSession, TenantAdministration], Awaitable[Result]]

tenant = typer.Typer(help="Create and list tenants.", no_args_is_help=True)
tenant.add_typer(limits, name="limits")


@tenant.command("create")
def create_tenant(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.")],
    max_concurrent_requests: Annotated[
        int, typer.Option(min=0, help="Requests it may run at once.")
    ] = MAX_CONCURRENT_REQUESTS,
    max_storage_bytes: Annotated[
        int, typer.Option(min=0, help="Bytes of adapters it may store.")
    ] = MAX_STORAGE_BYTES,
    max_open_uploads: Annotated[
        int, typer.Option(min=0, help="Uploads in parts it may have open.")
    ] = MAX_OPEN_UPLOADS,
) -> None:
    """Create a tenant. It can do nothing before it has a key."""

    async def action(session: AsyncSession, administration: TenantAdministration) -> str:
        made = await administration.create_tenant(
            session,
            name,
            max_concurrent_requests=max_concurrent_requests,
            max_storage_bytes=max_storage_bytes,
            max_open_uploads=max_open_uploads,
            actor=Actor.command_line(),
        )
        return f"{made.name}\t{made.id}"

    typer.echo(_in_transaction(action))


@tenant.command("list")
def list_tenants() -> None:
    """List tenants: name, id, state and how many requests each may run at once."""

    async def action(session: AsyncSession, administration: TenantAdministration) -> list[str]:
        return [
            f"{row.name}\t{row.id}\t{row.state}\t{row.max_concurrent_requests}"
            for row in await administration.list_tenants(session)
        ]

    for line in _in_transaction(action):
        typer.echo(line)


def _in_transaction(action: Action[Result]) -> Result:
    async def administer(session: AsyncSession, settings: Settings) -> Result:
        return await action(session, TenantAdministration(SecretKeys.from_settings(settings)))

    return in_transaction(administer)
