"""What operators' commands share: one transaction on role `system`, refusals in words."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.engine.protocol.errors import DomainError
from loraplex.platform.database.sessions import TENANT_SETTING, Database
from loraplex.platform.settings import MissingSetting, Settings
from loraplex.platform.tenancy.identity import TenantId

Result = TypeVar("Result")
Action = Callable[[AsyncSession, Settings], Awaitable[Result]]
TenantsAction = Callable[[AsyncSession, TenantId, Settings], Awaitable[Result]]


def in_transaction(action: Action[Result]) -> Result:
    """Run `action` in one transaction; a refusal is told in its own words, with exit status 1."""
    try:
        return asyncio.run(_transaction(Settings(), action))
    except DomainError as error:
        typer.echo(error.message, err=True)
        raise typer.Exit(1) from error


def in_tenants_transaction(tenant_id: TenantId, action: TenantsAction[Result]) -> Result:
    """As `in_transaction`, for one tenant: views of a tenant's things show this one's."""

    async def for_tenant(session: AsyncSession, settings: Settings) -> Result:
        await session.execute(select(func.set_config(TENANT_SETTING, str(tenant_id), True)))
        return await action(session, tenant_id, settings)

    return in_transaction(for_tenant)


async def _transaction(settings: Settings, action: Action[Result]) -> Result:
    if settings.database_system_url is None:
        raise MissingSetting("LORAPLEX_DATABASE_SYSTEM_URL")
    database = Database(settings.database_system_url.get_secret_value(), pool_size=1)
    try:
        async with database.unit_of_work() as session:
            return await action(session, settings)
    finally:
        await database.dispose()
