"""`loraplex tenant limits`: what a tenant, or one of its models, may use; on role `system`."""

from typing import Annotated, Final

import typer
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.admission.limits import (
    BUDGETS,
    QUOTAS,
    RATES,
    LimitsInUse,
    change_limits,
    page_of_limits,
)
from loraplex.platform.admission.models import Limits, Subject
from loraplex.platform.audit.actors import Actor
from loraplex.platform.database.pages import MAX_LIMIT, PageRequest
from loraplex.platform.management_commands import print_table
from loraplex.platform.operator_commands import in_transaction
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId

NO_LIMIT: Final = "none"
MOST: Final = 2**53 - 1
USED: Final = {
    "requests_per_minute": "requests",
    "tokens_per_minute": "tokens",
    "prompt_tokens_per_minute": "prompt_tokens",
    "output_tokens_per_minute": "output_tokens",
    "max_concurrent_requests": "running",
    "daily_budget_micros": "spent_day_micros",
    "monthly_budget_micros": "spent_month_micros",
}
"""Where the use of a limit is told."""

limits = typer.Typer(help="Show and set what a tenant may use.", no_args_is_help=True)

TenantName = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.")]


@limits.command("show")
def show_limits(name: TenantName) -> None:
    """List the limits of a tenant and of its models, members and keys, with their use."""

    async def action(session: AsyncSession, settings: Settings) -> list[LimitsInUse]:
        tenant_id = await _tenant_id(session, settings, name)
        found: list[LimitsInUse] = []
        wanted: PageRequest | None = PageRequest(MAX_LIMIT)
        while wanted is not None:
            page = await page_of_limits(session, tenant_id, wanted)
            found += page.items
            wanted = PageRequest(MAX_LIMIT, page.next_cursor) if page.next_cursor else None
        return found

    rows = [
        (one.limits.subject, one.limits.subject_id or name, limit, value, one.in_use.get(used))
        for one in in_transaction(action)
        for limit in (*RATES, *BUDGETS, *QUOTAS)
        if (value := getattr(one.limits, limit)) is not None
        for used in [USED.get(limit, "")]
    ]
    print_table(("Subject", "Id", "Limit", "At most", "Used"), rows, empty="No limits.")


@limits.command("set")
def set_limits(
    name: TenantName,
    assignments: Annotated[
        list[str],
        typer.Argument(
            metavar="LIMIT=VALUE...",
            help=f"{', '.join((*RATES, *BUDGETS))}; of a tenant also {', '.join(QUOTAS)}. "
            f"`{NO_LIMIT}` is no limit.",
        ),
    ],
    model: Annotated[
        str | None, typer.Option(help="An adapter or base of the tenant's, instead of all.")
    ] = None,
) -> None:
    """Set some limits; the others stay. In force from the next request on."""
    known = (*RATES, *BUDGETS) if model else (*RATES, *BUDGETS, *QUOTAS)
    values = dict(_assignment(text, known) for text in assignments)

    async def action(session: AsyncSession, settings: Settings) -> Limits:
        tenant_id = await _tenant_id(session, settings, name)
        subject = Subject.MODEL if model else Subject.TENANT
        actor = Actor.command_line()
        return await change_limits(session, actor, tenant_id, subject, model or "", values)

    changed = in_transaction(action)
    for limit in values:
        value = getattr(changed, limit)
        typer.echo(f"{limit}={NO_LIMIT if value is None else value}")


def _assignment(text: str, known: tuple[str, ...]) -> tuple[str, int | None]:
    name, _, told = text.partition("=")
    if name not in known:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(known)}")
    if told == NO_LIMIT and name != "soft_budget_percent":
        return name, None
    least, most = (1, 100) if name == "soft_budget_percent" else (0, MOST)
    if not (told.isascii() and told.isdecimal()) or not least <= int(told) <= most:
        raise typer.BadParameter(f"{text!r}: a whole number from {least} to {most}, or {NO_LIMIT}")
    return name, int(told)


async def _tenant_id(session: AsyncSession, settings: Settings, name: str) -> TenantId:
    administration = TenantAdministration(SecretKeys.from_settings(settings))
    return TenantId((await administration.find_tenant(session, name)).id)
