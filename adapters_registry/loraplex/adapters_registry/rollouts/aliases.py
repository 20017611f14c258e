"""Moves aliases: by compare-and-swap on their generation, each move kept for ever.

Whoever moves one holds the adapter's row, so that moves, rollouts and removals of versions come one
after the other.
"""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.rollouts.conditions import (
    alias_row,
    check_condition,
    check_no_rollout,
    check_target,
    find,
    hold,
    set_row,
)
from loraplex.adapters_registry.rollouts.errors import (
    AliasNotFound,
    NothingToRollBack,
)
from loraplex.adapters_registry.rollouts.models import Alias, AliasMove, MoveKind
from loraplex.adapters_registry.rollouts.views import AliasView, MoveView
from loraplex.adapters_registry.versions import pointers
from loraplex.adapters_registry.versions.models import Adapter
from loraplex.adapters_registry.versions.names import LATEST, check_alias_name
from loraplex.platform.database.pages import FIRST_PAGE, Keyset, Page, PageRequest
from loraplex.platform.tenancy.principals import TenantPrincipal
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit

ALIASES_BY_NAME = Keyset("aliases", Alias.name)
NEWEST_MOVES = Keyset("alias_moves", AliasMove.generation, descending=True)


async def list_aliases(
    session: AsyncSession,
    principal: TenantPrincipal,
    name: str,
    wanted: PageRequest = FIRST_PAGE,
) -> Page[AliasView]:
    """An adapter's aliases by name; before them `latest`, where it means something.

    Raises AdapterNotFound and InvalidCursor.
    """
    adapter = await find(session, principal, name)
    statement = select(Alias).where(
        Alias.tenant_id == principal.tenant_id,
        Alias.adapter_id == adapter.id,
        Alias.version.is_not(None),
    )
    page = (await ALIASES_BY_NAME.page(session, statement, wanted)).map(
        lambda row: AliasView.of(row[0], principal.tenant_name, name)
    )
    latest = await newest(session, principal, name) if wanted.cursor is None else None
    return page if latest is None else Page([latest, *page.items], page.next_cursor)


async def get_alias(
    session: AsyncSession, principal: TenantPrincipal, name: str, alias: str
) -> AliasView:
    """One alias. Raises AdapterNotFound and AliasNotFound."""
    adapter = await find(session, principal, name)
    if alias == LATEST:
        latest = await newest(session, principal, name)
        if latest is None:
            raise AliasNotFound(name, alias)
        return latest
    row = await alias_row(session, adapter, alias)
    if row is None or row.version is None:
        raise AliasNotFound(name, alias)
    return AliasView.of(row, principal.tenant_name, name)


async def list_moves(
    session: AsyncSession,
    principal: TenantPrincipal,
    name: str,
    alias: str,
    wanted: PageRequest = FIRST_PAGE,
) -> Page[MoveView]:
    """Every move of an alias, newest first, those before a removal too.

    Raises AdapterNotFound, AliasNotFound and InvalidCursor.
    """
    adapter = await find(session, principal, name)
    statement = select(AliasMove).where(
        AliasMove.tenant_id == principal.tenant_id,
        AliasMove.adapter_id == adapter.id,
        AliasMove.alias == alias,
    )
    page = await NEWEST_MOVES.page(session, statement, wanted)
    if not page.items and wanted.cursor is None:
        raise AliasNotFound(name, alias)
    return page.map(lambda row: MoveView.of(row[0]))


async def set_alias(
    session: AsyncSession,
    principal: TenantPrincipal,
    name: str,
    alias: str,
    number: int,
    expected: int | None,
) -> tuple[AliasView, bool]:
    """Point an alias at a version that can be called; the alias, and whether it was not set before.

    `expected` is the generation that the caller saw, None for an alias that is not set. Pointing at
    the same version changes nothing. Raises InvalidAliasName, AdapterNotFound, VersionNotFound,
    VersionNotCallable, ConditionMissing, AliasChanged, RolloutOpen.
    """
    check_alias_name(alias)
    held = await hold(session, principal, name)
    row = await alias_row(session, held.adapter, alias)
    check_condition(alias, row, expected)
    await check_target(session, held, number)
    is_new = row is None or row.version is None
    if row is None or row.version != number:
        await check_no_rollout(session, held.adapter, alias)
        row = await move(session, principal, held.adapter, alias, row, number, MoveKind.SET)
    return AliasView.of(row, principal.tenant_name, name), is_new


async def remove_alias(
    session: AsyncSession, principal: TenantPrincipal, name: str, alias: str, expected: int | None
) -> None:
    """Make an alias mean nothing; its history stays.

    Raises AdapterNotFound, AliasNotFound, ConditionMissing, AliasChanged, RolloutOpen.
    """
    held = await hold(session, principal, name)
    row = await set_row(session, held.adapter, alias, expected)
    await check_no_rollout(session, held.adapter, alias)
    await move(session, principal, held.adapter, alias, row, None, MoveKind.REMOVED)


async def roll_back_alias(
    session: AsyncSession, principal: TenantPrincipal, name: str, alias: str, expected: int | None
) -> AliasView:
    """Point an alias at what it pointed at before its last move; twice is forth again.

    Raises AdapterNotFound, AliasNotFound, ConditionMissing, AliasChanged, RolloutOpen,
    NothingToRollBack, VersionNotFound, VersionNotCallable.
    """
    held = await hold(session, principal, name)
    row = await set_row(session, held.adapter, alias, expected)
    await check_no_rollout(session, held.adapter, alias)
    last = select(AliasMove.from_version).where(
        AliasMove.tenant_id == row.tenant_id,
        AliasMove.adapter_id == row.adapter_id,
        AliasMove.alias == alias,
        AliasMove.generation == row.generation,
    )
    former = await session.scalar(last)
    if former is None:
        raise NothingToRollBack(alias)
    await check_target(session, held, former)
    moved = await move(session, principal, held.adapter, alias, row, former, MoveKind.ROLLED_BACK)
    return AliasView.of(moved, principal.tenant_name, name)


async def move(
    session: AsyncSession,
    principal: TenantPrincipal,
    adapter: Adapter,
    alias: str,
    row: Alias | None,
    to_version: int | None,
    kind: MoveKind,
) -> Alias:
    """Write a move whose conditions hold; the caller holds the adapter."""
    before = None if row is None else row.version
    if row is None:
        row = Alias(
            tenant_id=adapter.tenant_id,
            adapter_id=adapter.id,
            name=alias,
            version=to_version,
            generation=1,
        )
        session.add(row)
    else:
        row.version, row.generation, row.moved_at = to_version, row.generation + 1, func.now()
    await session.flush()
    await session.refresh(row)
    session.add(
        AliasMove(
            tenant_id=row.tenant_id,
            adapter_id=row.adapter_id,
            alias=alias,
            generation=row.generation,
            kind=kind,
            from_version=before,
            to_version=to_version,
            api_key_id=principal.key_id,
        )
    )
    await session.flush()
    await emit(
        session,
        principal.tenant_id,
        EventType.ALIAS_MOVED,
        {
            "adapter": adapter.name,
            "alias": alias,
            "generation": row.generation,
            "kind": kind,
            "from_version": before,
            "to_version": to_version,
        },
    )
    return row


async def newest(session: AsyncSession, principal: TenantPrincipal, name: str) -> AliasView | None:
    pointer = await pointers.pointer(session, principal.tenant_id, name, LATEST)
    version = None if pointer is None else pointer.main_version
    return None if version is None else AliasView.latest(version, principal.tenant_name, name)
