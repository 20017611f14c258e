"""`loraplex admin` and `loraplex member`: people looked after by hand, on role `system`."""

from typing import Annotated

import typer
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.pages import MAX_LIMIT, Page, PageRequest
from loraplex.platform.lifecycle.service import find_tenant
from loraplex.platform.operator_commands import in_tenants_transaction, in_transaction
from loraplex.platform.people import managing, members
from loraplex.platform.people.administration import PeopleAdministration
from loraplex.platform.people.invitations import Invitations, link_path
from loraplex.platform.people.models import User
from loraplex.platform.people.views import Member
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.principals import SCOPES_OF, OperatorRole, Role

admin = typer.Typer(help="The people who operate the platform.", no_args_is_help=True)
member = typer.Typer(help="The members of a tenant.", no_args_is_help=True)

TenantOption = Annotated[str, typer.Option("--tenant", help="The tenant's name.")]
EmailArgument = Annotated[str, typer.Argument(help="The person's e-mail address.")]


@admin.command("create")
def create_admin(
    email: EmailArgument,
    role: Annotated[OperatorRole, typer.Option(help="What they may do.")] = OperatorRole.ADMIN,
) -> None:
    """Print a link by which somebody becomes an operator and chooses a password, once."""

    async def action(session: AsyncSession, settings: Settings) -> str:
        invitations = Invitations(SecretKeys.from_settings(settings))
        made, token = await PeopleAdministration(invitations).invite_operator(
            session, email, role, Actor.command_line().label
        )
        await record(
            session,
            Actor.command_line(),
            "operator.invited",
            tenant_id=None,
            target=Target("invitation", made.id, made.email),
            after={"operator_role": role.value},
        )
        return f"{settings.public_address}{link_path(token)}"

    _show_link(in_transaction(action))


@admin.command("list")
def list_admins() -> None:
    """List operators: e-mail, role, and whether they are let in."""

    async def action(session: AsyncSession, settings: Settings) -> list[str]:
        people = PeopleAdministration(Invitations(SecretKeys.from_settings(settings)))
        lines = []
        wanted: PageRequest | None = PageRequest(MAX_LIMIT)
        while wanted is not None:
            page: Page[User] = await people.page(session, wanted)
            lines += [
                f"{user.email}\t{user.operator_role}\t"
                f"{'disabled' if user.disabled_at else 'active'}"
                for user in page.items
                if user.operator_role is not None
            ]
            wanted = PageRequest(MAX_LIMIT, page.next_cursor) if page.next_cursor else None
        return lines

    for line in in_transaction(action):
        typer.echo(line)


@admin.command("reset-password")
def reset_password(email: EmailArgument) -> None:
    """Print a link by which somebody chooses a new password, once."""

    async def action(session: AsyncSession, settings: Settings) -> str:
        people = PeopleAdministration(Invitations(SecretKeys.from_settings(settings)))
        user = await people.find_by_email(session, email)
        _, token = await people.reset_password(session, user, Actor.command_line().label)
        await record(
            session,
            Actor.command_line(),
            "password.reset",
            tenant_id=None,
            target=Target("person", user.id, user.email),
        )
        return f"{settings.public_address}{link_path(token)}"

    _show_link(in_transaction(action))


@admin.command("disable")
def disable_person(
    email: EmailArgument,
    undo: Annotated[bool, typer.Option("--undo", help="Let them in again.")] = False,
) -> None:
    """Refuse somebody everywhere, and end their sessions."""

    async def action(session: AsyncSession, settings: Settings) -> None:
        people = PeopleAdministration(Invitations(SecretKeys.from_settings(settings)))
        user = await people.find_by_email(session, email)
        before = user.disabled_at is not None
        await people.set_disabled(session, user, not undo)
        await record(
            session,
            Actor.command_line(),
            "person.changed",
            tenant_id=None,
            target=Target("person", user.id, user.email),
            before={"is_disabled": before},
            after={"is_disabled": not undo},
        )

    in_transaction(action)
    typer.echo(f"{email} is {'let in again' if undo else 'refused'}.")


@member.command("list")
def list_members(tenant: TenantOption) -> None:
    """List members: id, e-mail and role."""

    async def action(session: AsyncSession, tenant_id: TenantId, _: Settings) -> list[str]:
        lines = []
        wanted: PageRequest | None = PageRequest(MAX_LIMIT)
        while wanted is not None:
            page: Page[Member] = await members.page_of_members(session, tenant_id, wanted)
            lines += [f"{one.id}\t{one.email}\t{one.role}" for one in page.items]
            wanted = PageRequest(MAX_LIMIT, page.next_cursor) if page.next_cursor else None
        return lines

    for line in in_tenants_transaction(_id_of(tenant), action):
        typer.echo(line)


@member.command("invite")
def invite_member(
    tenant: TenantOption,
    email: EmailArgument,
    role: Annotated[Role, typer.Option(help="What they may do.")] = Role.OWNER,
) -> None:
    """Print a link by which somebody becomes a member, once."""

    async def action(session: AsyncSession, tenant_id: TenantId, settings: Settings) -> str:
        invitations = Invitations(SecretKeys.from_settings(settings))
        _, token = await managing.invite(session, invitations, _by(tenant_id), email, role)
        return f"{settings.public_address}{link_path(token)}"

    _show_link(in_tenants_transaction(_id_of(tenant), action))


@member.command("remove")
def remove_member(tenant: TenantOption, email: EmailArgument) -> None:
    """End a membership, with the member's sessions there and the keys they made."""

    async def action(session: AsyncSession, tenant_id: TenantId, _: Settings) -> None:
        found = await members.find_by_email(session, tenant_id, email)
        await managing.remove(session, _by(tenant_id), found.id)

    in_tenants_transaction(_id_of(tenant), action)
    typer.echo(f"{email} is no member of {tenant} any more.")


def _id_of(tenant: str) -> TenantId:
    async def action(session: AsyncSession, _: Settings) -> TenantId:
        return TenantId((await find_tenant(session, tenant)).id)

    return in_transaction(action)


def _by(tenant_id: TenantId) -> managing.Manager:
    actor = Actor.command_line()
    return managing.Manager(tenant_id, SCOPES_OF[Role.OWNER], actor.label, actor)


def _show_link(link: str) -> None:
    typer.echo("Send this link to them; it works once, for seven days:", err=True)
    typer.echo(link)
