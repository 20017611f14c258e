"""Deletes adapters and versions so that it can be undone, until they are purged.

What is deleted cannot be called from the next request on; requests that run keep what they have.
"""

from datetime import timedelta

from sqlalchemy import delete, func, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import AdapterNotFound, VersionInUse, VersionNotFound
from loraplex.adapters_registry.rollouts.errors import RolloutOpen
from loraplex.adapters_registry.rollouts.models import Alias, AliasMove, Rollout
from loraplex.adapters_registry.versions import adapter_limit
from loraplex.adapters_registry.versions.models import Adapter, AdapterVersion
from loraplex.adapters_registry.versions.repository import VersionRepository
from loraplex.adapters_registry.versions.views import AdapterView, VersionView
from loraplex.platform.tenancy.principals import TenantPrincipal
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit

PURGE_BATCH = 100


async def delete_version(
    session: AsyncSession, principal: TenantPrincipal, name: str, number: int
) -> VersionView:
    """Delete a version that no alias and no open rollout names; twice changes nothing.

    Raises AdapterNotFound, VersionNotFound, VersionInUse.
    """
    adapter, version = await hold_version(session, principal, name, number)
    if version.deleted_at is None:
        alias = await alias_that_names(session, adapter, number)
        if alias is not None:
            raise VersionInUse(number, alias)
        version.deleted_at = func.now()
        await tell(session, principal, EventType.VERSION_DELETED, name, number)
        await session.refresh(version, ["deleted_at"])
    return VersionView.of(version, principal.tenant_name, name)


async def restore_version(
    session: AsyncSession, principal: TenantPrincipal, name: str, number: int
) -> VersionView:
    """Undo a deletion; raises AdapterNotFound, and VersionNotFound once it is purged."""
    _, version = await hold_version(session, principal, name, number)
    if version.deleted_at is not None:
        version.deleted_at = None
        await tell(session, principal, EventType.VERSION_RESTORED, name, number)
    return VersionView.of(version, principal.tenant_name, name)


async def delete_adapter(
    session: AsyncSession, principal: TenantPrincipal, name: str
) -> AdapterView:
    """Delete an adapter with its versions and aliases, all at once; twice changes nothing.

    It keeps its name until it is purged. Raises AdapterNotFound and RolloutOpen.
    """
    adapter = await hold_adapter(session, principal, name)
    if adapter.deleted_at is None:
        statement = select(Rollout).where(
            Rollout.tenant_id == adapter.tenant_id,
            Rollout.adapter_id == adapter.id,
            Rollout.ended_at.is_(None),
        )
        rollout = await session.scalar(statement.limit(1))
        if rollout is not None:
            raise RolloutOpen(rollout.alias, rollout.id)
        adapter.deleted_at = func.now()
        await tell(session, principal, EventType.VERSION_DELETED, name, None)
    return await view_of(session, principal, name)


async def restore_adapter(
    session: AsyncSession, principal: TenantPrincipal, name: str
) -> AdapterView:
    """Undo a deletion; raises TooManyAdapters, and AdapterNotFound once it is purged."""
    adapter = await hold_adapter(session, principal, name)
    if adapter.deleted_at is not None:
        adapter.deleted_at = None
        await adapter_limit.check(session, principal.tenant_id)
        await tell(session, principal, EventType.VERSION_RESTORED, name, None)
    return await view_of(session, principal, name)


async def purge(session: AsyncSession, kept: timedelta) -> int:
    """Forget what was deleted longer than `kept` ago (role `system`); how many rows that were.

    Adapters that somebody holds are left for the next time.
    """
    cutoff = func.now() - literal(kept)
    late_versions = (
        select(AdapterVersion)
        .join(Adapter, Adapter.id == AdapterVersion.adapter_id)
        .where(AdapterVersion.deleted_at < cutoff)
        .limit(PURGE_BATCH)
        .with_for_update(skip_locked=True)
    )
    purged = 0
    for version in (await session.scalars(late_versions)).all():
        await session.delete(version)
        purged += 1
    await session.flush()
    late_adapters = select(Adapter).where(Adapter.deleted_at < cutoff).limit(PURGE_BATCH)
    for adapter in (await session.scalars(late_adapters.with_for_update(skip_locked=True))).all():
        for model in (Rollout, AliasMove, Alias, AdapterVersion):
            await forget(session, model, adapter)
        await session.delete(adapter)
        await session.flush()
        purged += 1
    return purged


async def forget(
    session: AsyncSession,
    model: type[Rollout] | type[AliasMove] | type[Alias] | type[AdapterVersion],
    adapter: Adapter,
) -> None:
    rows = (model.tenant_id == adapter.tenant_id) & (model.adapter_id == adapter.id)
    await session.execute(delete(model).where(rows))


async def alias_that_names(session: AsyncSession, adapter: Adapter, number: int) -> str | None:
    """An alias that points at the version, or whose open rollout splits to it."""
    pointing = select(Alias.name).where(
        Alias.tenant_id == adapter.tenant_id,
        Alias.adapter_id == adapter.id,
        Alias.version == number,
    )
    split = select(Rollout.alias).where(
        Rollout.tenant_id == adapter.tenant_id,
        Rollout.adapter_id == adapter.id,
        Rollout.ended_at.is_(None),
        or_(Rollout.stable_version == number, Rollout.candidate_version == number),
    )
    return await session.scalar(pointing.union_all(split).limit(1))


async def hold_version(
    session: AsyncSession, principal: TenantPrincipal, name: str, number: int
) -> tuple[Adapter, AdapterVersion]:
    adapter = await hold_adapter(session, principal, name)
    version = await VersionRepository(session).version(principal.tenant_id, name, number)
    if adapter.deleted_at is not None:
        raise AdapterNotFound(name)
    if version is None:
        raise VersionNotFound(name, number)
    return adapter, version


async def hold_adapter(session: AsyncSession, principal: TenantPrincipal, name: str) -> Adapter:
    held = await VersionRepository(session).hold_adapter(principal.tenant_id, name)
    if held is None:
        raise AdapterNotFound(name)
    return held.adapter


async def view_of(session: AsyncSession, principal: TenantPrincipal, name: str) -> AdapterView:
    await session.flush()
    session.expire_all()
    row = await VersionRepository(session).adapter(principal.tenant_id, name)
    assert row is not None, "the adapter is held"
    return AdapterView.of(*row, principal.tenant_name)


async def tell(
    session: AsyncSession,
    principal: TenantPrincipal,
    event_type: EventType,
    name: str,
    number: int | None,
) -> None:
    """Tell of a version, or of the whole adapter where there is no number."""
    await session.flush()
    await emit(session, principal.tenant_id, event_type, {"adapter": name, "version": number})
