"""`loraplex price` and `loraplex usage`: what operators do by hand, on role `system`."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor
from loraplex.platform.database.pages import MAX_LIMIT, PageRequest
from loraplex.platform.database.sessions import Database
from loraplex.platform.management_commands import print_table
from loraplex.platform.metering.checks import everything
from loraplex.platform.metering.invariants import Finding, check_now, check_period
from loraplex.platform.metering.models import PriceRow
from loraplex.platform.metering.pricing import create_price, page_of_prices
from loraplex.platform.metering.rollups import minutes_kept_from, rebuild
from loraplex.platform.operator_commands import in_transaction
from loraplex.platform.settings import MissingSetting, Settings
from loraplex.platform.tenancy.errors import TenantNotFound
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.labels import tenant_ids_named, tenant_names
from loraplex.platform.tenancy.models import Tenant

price = typer.Typer(help="Make and list prices.", no_args_is_help=True)
usage = typer.Typer(help="Check usage, or make it anew.", no_args_is_help=True)

MAX_RATE = 10**12


@price.command("create")
def create(
    input_rate: Annotated[
        int, typer.Option("--input", min=0, max=MAX_RATE, help="Micros per million tokens.")
    ],
    output_rate: Annotated[
        int, typer.Option("--output", min=0, max=MAX_RATE, help="Micros per million tokens.")
    ],
    cached_rate: Annotated[
        int | None,
        typer.Option("--cached-input", min=0, max=MAX_RATE, help="Default: as other input."),
    ] = None,
    storage_rate: Annotated[
        int | None,
        typer.Option("--storage", min=0, max=MAX_RATE, help="Micros per GiB-month of adapters."),
    ] = None,
    currency: Annotated[str, typer.Option(help="ISO 4217.")] = "USD",
    base_model: Annotated[str | None, typer.Option(help="Default: every base model.")] = None,
    tenant: Annotated[str | None, typer.Option(help="A tenant's name. Default: everybody.")] = None,
    effective_from: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%dT%H:%M:%SZ"], help="In UTC, now or later. Default: now."),
    ] = None,
) -> None:
    """Make a price. It is never changed: make another one, which begins where it should end."""
    if base_model is not None and storage_rate is not None:
        raise typer.BadParameter("storage belongs to no base model", param_hint="--storage")
    if cached_rate is not None and cached_rate > input_rate:
        raise typer.BadParameter("at most as dear as --input", param_hint="--cached-input")

    async def action(session: AsyncSession, _: Settings) -> PriceRow:
        tenant_id = None
        if tenant is not None:
            found = await tenant_ids_named(session, [tenant])
            if not found:
                raise TenantNotFound(tenant)
            tenant_id = TenantId(found[0])
        return await create_price(
            session,
            Actor.command_line(),
            tenant_id=tenant_id,
            base_model=base_model,
            input_micros_per_million=input_rate,
            cached_input_micros_per_million=input_rate if cached_rate is None else cached_rate,
            output_micros_per_million=output_rate,
            storage_micros_per_gib_month=None if base_model is not None else storage_rate or 0,
            currency=currency,
            effective_from=None if effective_from is None else effective_from.replace(tzinfo=UTC),
        )

    made = in_transaction(action)
    typer.echo(f"{made.id} applies from {_shown(made.effective_from)} on.")


@price.command("list")
def list_prices() -> None:
    """List every price that was ever made, the newest first."""

    async def action(session: AsyncSession, _: Settings) -> list[tuple[object, ...]]:
        found: list[PriceRow] = []
        wanted: PageRequest | None = PageRequest(MAX_LIMIT)
        while wanted is not None:
            page = await page_of_prices(session, wanted)
            found += page.items
            wanted = PageRequest(MAX_LIMIT, page.next_cursor) if page.next_cursor else None
        names = await tenant_names(session, {row.tenant_id for row in found if row.tenant_id})
        return [
            (
                row.id,
                "everybody" if row.tenant_id is None else names[row.tenant_id],
                row.base_model or "every model",
                row.input_micros_per_million,
                row.cached_input_micros_per_million,
                row.output_micros_per_million,
                row.storage_micros_per_gib_month,
                row.currency,
                _shown(row.effective_from),
            )
            for row in found
        ]

    columns = ("Price", "For", "Model", "Input", "Cached", "Output", "Storage", "Currency", "From")
    print_table(columns, in_transaction(action), empty="No prices.")


@usage.command("rebuild")
def rebuild_usage(
    tenant: Annotated[str | None, typer.Option(help="A tenant's name. Default: all.")] = None,
) -> None:
    """Make roll-ups by minute, hour and day anew from the ledger, a tenant at a time."""
    settings = Settings()
    if settings.database_system_url is None:
        raise MissingSetting("LORAPLEX_DATABASE_SYSTEM_URL")
    url = settings.database_system_url.get_secret_value()
    minutes_from = minutes_kept_from(datetime.now(UTC), settings.usage_minutes_kept_days)
    count = asyncio.run(_rebuild(url, tenant, minutes_from))
    typer.echo(f"Usage of {count} tenants is made anew.")


@usage.command("check")
def check_usage() -> None:
    """Compare all of the ledger with what is derived from it; exit status 1 where they differ."""

    async def action(session: AsyncSession, settings: Settings) -> list[Finding]:
        period = everything(datetime.now(UTC), settings.usage_minutes_kept_days)
        return await check_period(session, period) + await check_now(session)

    found = in_transaction(action)
    rows = [
        (finding.invariant, one.tenant_id, one.place, one.expected, one.found)
        for finding in found
        for one in finding.violations
    ]
    columns = ("Invariant", "Tenant", "Where", "Expected", "Found")
    print_table(columns, rows, empty="Everything agrees.")
    if rows:
        typer.echo(f"{sum(finding.count for finding in found)} places in all.", err=True)
        raise typer.Exit(1)


async def _rebuild(url: str, name: str | None, minutes_from: datetime) -> int:
    database = Database(url, pool_size=1)
    try:
        async with database.unit_of_work() as session:
            wanted = select(Tenant.id)
            if name is not None:
                wanted = wanted.where(Tenant.name == name)
            tenant_ids = list(await session.scalars(wanted))
        if name is not None and not tenant_ids:
            raise TenantNotFound(name)
        for tenant_id in tenant_ids:
            await rebuild(database, tenant_id, minutes_from, Actor.command_line())
    finally:
        await database.dispose()
    return len(tenant_ids)


def _shown(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
