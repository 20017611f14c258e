"""`loraplex tenant` and `loraplex key`: what operators do by hand, on role `system`."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar
from uuid import UUID

import typer
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.operator_commands import in_transaction
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import (
    MAX_CONCURRENT_REQUESTS,
    MAX_OPEN_UPLOADS,
    MAX_STORAGE_BYTES,
    TenantAdministration,
)
from loraplex.platform.tenancy.models import ApiKey, OperatorKey

Result = TypeVar("Result")
Action = Callable[[AsyncSession, TenantAdministration], Awaitable[Result]]

tenant = typer.Typer(help="Create and list tenants.", no_args_is_help=True)
key = typer.Typer(help="Create, list and revoke API keys.", no_args_is_help=True)

TenantOption = Annotated[str | None, typer.Option("--tenant", help="The tenant's name.")]
OperatorOption = Annotated[bool, typer.Option("--operator", help="A key of an operator instead.")]


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


@key.command("create")
def create_key(
    tenant_name: TenantOption = None,
    operator: OperatorOption = False,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "default",
    expires_in_days: Annotated[int | None, typer.Option(min=1, help="Default: never.")] = None,
) -> None:
    """Create a key and print it. It is shown this once and stored nowhere."""
    owner = _owner(tenant_name, operator)
    expires_at = None
    if expires_in_days is not None:
        expires_at = datetime.now(UTC) + timedelta(days=expires_in_days)

    async def action(
        session: AsyncSession, administration: TenantAdministration
    ) -> tuple[ApiKey | OperatorKey, str]:
        if owner is None:
            return await administration.create_operator_key(session, name, expires_at=expires_at)
        row = await administration.find_tenant(session, owner)
        return await administration.create_key(session, row, name, expires_at=expires_at)

    made, text = _in_transaction(action)
    typer.echo(f"Key {made.id}; keep it now, it will not be shown again:", err=True)
    typer.echo(text)


@key.command("list")
def list_keys(tenant_name: TenantOption = None, operator: OperatorOption = False) -> None:
    """List keys: id, label, name, and whether revoked or expired."""
    owner = _owner(tenant_name, operator)

    async def action(session: AsyncSession, administration: TenantAdministration) -> list[str]:
        now = datetime.now(UTC)
        if owner is None:
            return [_line(row, now) for row in await administration.list_operator_keys(session)]
        row = await administration.find_tenant(session, owner)
        return [_line(row, now) for row in await administration.list_keys(session, row)]

    for line in _in_transaction(action):
        typer.echo(line)


@key.command("revoke")
def revoke_key(key_id: Annotated[UUID, typer.Argument(help="As `key list` shows it.")]) -> None:
    """End a key, and the web sessions opened with it, from the next request on."""

    async def action(session: AsyncSession, administration: TenantAdministration) -> None:
        await administration.revoke_key(session, key_id)

    _in_transaction(action)
    typer.echo(f"Key {key_id} is revoked.")


def _owner(tenant_name: str | None, operator: bool) -> str | None:
    """The tenant named, or None for an operator; exactly one of the two must be asked for."""
    if (tenant_name is None) != operator:
        raise typer.BadParameter("give either --tenant NAME or --operator")
    return tenant_name


def _line(row: ApiKey | OperatorKey, now: datetime) -> str:
    state = "live"
    if row.revoked_at is not None:
        state = "revoked"
    elif row.expires_at is not None and row.expires_at <= now:
        state = "expired"
    return f"{row.id}\t{row.label}\t{row.name}\t{state}"


def _in_transaction(action: Action[Result]) -> Result:
    async def administer(session: AsyncSession, settings: Settings) -> Result:
        return await action(session, TenantAdministration(SecretKeys.from_settings(settings)))

    return in_transaction(administer)
