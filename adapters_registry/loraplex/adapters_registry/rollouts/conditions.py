"""What has to hold before an alias is moved: asked of rows that the caller holds."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import AdapterNotFound, VersionNotFound
from loraplex.adapters_registry.rollouts.errors import (
    AliasChanged,
    AliasNotFound,
    ConditionMissing,
    RolloutOpen,
    VersionNotCallable,
)
from loraplex.adapters_registry.rollouts.models import Alias, Rollout
from loraplex.adapters_registry.versions.models import Adapter, AdapterVersion
from loraplex.adapters_registry.versions.repository import HeldAdapter, VersionRepository
from loraplex.adapters_registry.versions.standing import obstacle
from loraplex.platform.tenancy.principals import TenantPrincipal


def check_condition(alias: str, row: Alias | None, expected: int | None) -> None:
    """Raise unless the caller's condition is the alias's state: its generation, or "not set"."""
    generation = None if row is None or row.version is None else row.generation
    if expected is None and generation is not None:
        raise ConditionMissing(alias)
    if expected is not None and expected != generation:
        raise AliasChanged(alias, expected, generation)


async def check_target(session: AsyncSession, held: HeldAdapter, number: int) -> None:
    """Raise VersionNotFound or VersionNotCallable unless a name may point at the version."""
    why = obstacle(await version_row(session, held, number), held.base)
    if why is not None:
        raise VersionNotCallable(number, why)


async def version_row(session: AsyncSession, held: HeldAdapter, number: int) -> AdapterVersion:
    """A version of any status; raises VersionNotFound."""
    statement = select(AdapterVersion).where(
        AdapterVersion.tenant_id == held.adapter.tenant_id,
        AdapterVersion.adapter_id == held.adapter.id,
        AdapterVersion.number == number,
    )
    version = await session.scalar(statement)
    if version is None:
        raise VersionNotFound(held.adapter.name, number)
    return version


async def check_no_rollout(session: AsyncSession, adapter: Adapter, alias: str) -> None:
    """Raise RolloutOpen while a rollout splits the alias."""
    statement = select(Rollout.id).where(
        Rollout.tenant_id == adapter.tenant_id,
        Rollout.adapter_id == adapter.id,
        Rollout.alias == alias,
        Rollout.ended_at.is_(None),
    )
    rollout_id = await session.scalar(statement)
    if rollout_id is not None:
        raise RolloutOpen(alias, rollout_id)


async def hold(session: AsyncSession, principal: TenantPrincipal, name: str) -> HeldAdapter:
    held = await VersionRepository(session).hold_adapter(principal.tenant_id, name)
    if held is None or held.adapter.deleted_at is not None:
        raise AdapterNotFound(name)
    return held


async def find(session: AsyncSession, principal: TenantPrincipal, name: str) -> Adapter:
    mine = (Adapter.tenant_id == principal.tenant_id) & (Adapter.name == name)
    adapter = await session.scalar(select(Adapter).where(mine, Adapter.deleted_at.is_(None)))
    if adapter is None:
        raise AdapterNotFound(name)
    return adapter


async def alias_row(session: AsyncSession, adapter: Adapter, alias: str) -> Alias | None:
    return await session.get(Alias, (adapter.tenant_id, adapter.id, alias))


async def set_row(
    session: AsyncSession, adapter: Adapter, alias: str, expected: int | None
) -> Alias:
    """The row of an alias that is set, in the state that was expected."""
    row = await alias_row(session, adapter, alias)
    if row is None or row.version is None:
        raise AliasNotFound(adapter.name, alias)
    check_condition(alias, row, expected)
    return row
