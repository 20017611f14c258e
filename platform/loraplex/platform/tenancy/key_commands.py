"""`loraplex key`: keys of tenants and of operators, straight on the database, by hand."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar
from uuid import UUID

import typer
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor
from loraplex.platform.operator_commands import in_transaction
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration, owner_of
from loraplex.platform.tenancy.api_keys import KeyChanges
from loraplex.platform.tenancy.key_lives import MAX_OVERLAP
from loraplex.platform.tenancy.key_rules import KeyDraft
from loraplex.platform.tenancy.key_views import ApiKeyView, OperatorKeyView
from loraplex.platform.tenancy.operator_keys import COMMAND_LINE
from loraplex.platform.tenancy.scopes import SCOPES_OF, OperatorRole, Role, Scope

Result = TypeVar("Result")
AnyKey = ApiKeyView | OperatorKeyView
Action = Callable[[AsyncSession, TenantAdministration], Awaitable[Result]]

key = typer.Typer(help="Create, list, rotate and revoke API keys.", no_args_is_help=True)

TenantOption = Annotated[str | None, typer.Option("--tenant", help="The tenant's name.")]
OperatorOption = Annotated[bool, typer.Option("--operator", help="A key of an operator instead.")]
KeyArgument = Annotated[UUID, typer.Argument(help="As `key list` shows it.")]


@key.command("create")
def create_key(
    tenant_name: TenantOption = None,
    operator: OperatorOption = False,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "default",
    role: Annotated[
        str | None, typer.Option(help="A role's scopes; default: owner, or admin of operators.")
    ] = None,
    scope: Annotated[
        list[Scope] | None, typer.Option(help="Only these scopes; may be repeated.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Only these bases and adapters; may be repeated.")
    ] = None,
    expires_in_days: Annotated[int | None, typer.Option(min=1, help="Default: never.")] = None,
) -> None:
    """Create a key and print it. It is shown this once and stored nowhere."""
    owner = _owner(tenant_name, operator)
    if owner is None and (scope or model):
        raise typer.BadParameter("--scope and --model are for tenants' keys")
    expires_at = None
    if expires_in_days is not None:
        expires_at = datetime.now(UTC) + timedelta(days=expires_in_days)

    async def action(
        session: AsyncSession, administration: TenantAdministration
    ) -> tuple[AnyKey, str]:
        if owner is None:
            return await administration.operator_keys.create(
                session,
                COMMAND_LINE,
                Actor.command_line(),
                name,
                role=_role(OperatorRole, role, OperatorRole.ADMIN),
                expires_at=expires_at,
            )
        draft = KeyDraft(
            name,
            scopes=frozenset(scope) if scope else None,
            models=frozenset(model) if model else None,
            expires_at=expires_at,
            role=_role(Role, role, Role.OWNER),
        )
        tenant = await administration.find_tenant(session, owner)
        return await administration.keys.create(
            session, owner_of(tenant), Actor.command_line(), draft
        )

    _print_new(_in_transaction(action))


@key.command("list")
def list_keys(tenant_name: TenantOption = None, operator: OperatorOption = False) -> None:
    """List keys: id, label, name, state, what each may do, and when it was last used (UTC)."""
    owner = _owner(tenant_name, operator)

    async def action(session: AsyncSession, administration: TenantAdministration) -> list[AnyKey]:
        if owner is None:
            return [*await administration.list_operator_keys(session)]
        tenant = await administration.find_tenant(session, owner)
        return [*await administration.list_keys(session, tenant)]

    for one in _in_transaction(action):
        used = "never" if one.last_used_at is None else f"{one.last_used_at.astimezone(UTC):%F %R}"
        line = (str(one.id), one.label, one.name, one.state.value, _may(one), used)
        typer.echo("\t".join(line))


@key.command("rotate")
def rotate_key(
    key_id: KeyArgument,
    overlap_hours: Annotated[
        int,
        typer.Option(
            min=0,
            max=int(MAX_OVERLAP / timedelta(hours=1)),
            help="How long the old key goes on beside the new one.",
        ),
    ] = 24,
) -> None:
    """Create a key that takes another one's place, and print it. The old one ends by itself."""
    overlap = timedelta(hours=overlap_hours)

    async def action(
        session: AsyncSession, administration: TenantAdministration
    ) -> tuple[AnyKey, str]:
        actor = Actor.command_line()
        tenant = await administration.tenant_of(session, key_id)
        if tenant is None:
            return await administration.operator_keys.rotate(
                session, COMMAND_LINE, actor, key_id, overlap
            )
        return await administration.keys.rotate(session, owner_of(tenant), actor, key_id, overlap)

    _print_new(_in_transaction(action))


@key.command("disable")
def disable_key(key_id: KeyArgument) -> None:
    """Put a key aside; within five seconds no gateway takes it."""
    _set_disabled(key_id, is_disabled=True)
    typer.echo(f"Key {key_id} is disabled.")


@key.command("enable")
def enable_key(key_id: KeyArgument) -> None:
    """Take a key up again that was disabled."""
    _set_disabled(key_id, is_disabled=False)
    typer.echo(f"Key {key_id} is enabled.")


@key.command("revoke")
def revoke_key(key_id: KeyArgument) -> None:
    """End a key, and the web sessions opened with it, within five seconds on every gateway."""

    async def action(session: AsyncSession, administration: TenantAdministration) -> None:
        await administration.revoke_key(session, key_id, actor=Actor.command_line())

    _in_transaction(action)
    typer.echo(f"Key {key_id} is revoked.")


def _set_disabled(key_id: UUID, *, is_disabled: bool) -> None:
    async def action(session: AsyncSession, administration: TenantAdministration) -> None:
        actor = Actor.command_line()
        tenant = await administration.tenant_of(session, key_id)
        if tenant is None:
            await administration.operator_keys.change(
                session, actor, key_id, is_disabled=is_disabled
            )
        else:
            changes = KeyChanges(is_disabled=is_disabled)
            await administration.keys.change(session, owner_of(tenant), actor, key_id, changes)

    _in_transaction(action)


def _owner(tenant_name: str | None, operator: bool) -> str | None:
    """The tenant named, or None for an operator; exactly one of the two must be asked for."""
    if (tenant_name is None) != operator:
        raise typer.BadParameter("give either --tenant NAME or --operator")
    return tenant_name


AnyRole = TypeVar("AnyRole", Role, OperatorRole)


def _role(roles: type[AnyRole], name: str | None, default: AnyRole) -> AnyRole:
    try:
        return default if name is None else roles(name)
    except ValueError:
        raise typer.BadParameter(f"--role is one of {', '.join(roles)}") from None


def _may(one: AnyKey) -> str:
    if isinstance(one, OperatorKeyView):
        return one.role.value
    is_whole_role = one.scopes == SCOPES_OF[one.role]
    scopes = one.role.value if is_whole_role else ",".join(sorted(one.scopes))
    return scopes if one.models is None else f"{scopes} on {','.join(sorted(one.models))}"


def _print_new(made: tuple[AnyKey, str]) -> None:
    one, text = made
    typer.echo(f"Key {one.id}; keep it now, it will not be shown again:", err=True)
    typer.echo(text)


def _in_transaction(action: Action[Result]) -> Result:
    async def administer(session: AsyncSession, settings: Settings) -> Result:
        return await action(session, TenantAdministration(SecretKeys.from_settings(settings)))

    return in_transaction(administer)
