"""An alias moves only for who knows where it stands, and remembers every move."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from loraplex.adapters_registry.errors import AdapterNotFound, ModelNotFound, VersionNotFound
from loraplex.adapters_registry.rollouts import aliases
from loraplex.adapters_registry.rollouts.errors import (
    AliasChanged,
    AliasNotFound,
    ConditionMissing,
    InvalidAliasName,
    NothingToRollBack,
    VersionNotCallable,
)
from loraplex.adapters_registry.rollouts.models import MoveKind
from loraplex.adapters_registry.rollouts.views import AliasView
from loraplex.adapters_registry.versions.models import VersionStatus
from loraplex.adapters_registry.versions.service import Catalogue
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.principals import TenantPrincipal
from loraplex.platform.webhooks.models import WebhookEvent
from tests.adapters_registry.conftest import MakeTenant
from tests.adapters_registry.versions.planned import PlannedAdapter, PlannedVersion, add_adapter

READY, REJECTED = VersionStatus.READY, VersionStatus.REJECTED


class Registry:
    """One tenant's adapter `support`: versions 1 to 3 are ready, 4 is not."""

    def __init__(self, database: Database, tenant: TenantPrincipal) -> None:
        self.database, self.tenant = database, tenant

    async def do(self, action: Callable[..., Any], *arguments: Any) -> Any:
        async with self.database.unit_of_work(self.tenant.tenant_id) as session:
            return await action(session, self.tenant, "support", *arguments)

    async def point(self, alias: str, version: int, expected: int | None = None) -> AliasView:
        view, _ = await self.do(aliases.set_alias, alias, version, expected)
        assert isinstance(view, AliasView)
        return view

    async def called(self, model: str) -> int | None:
        async with self.database.unit_of_work(self.tenant.tenant_id) as session:
            return (await Catalogue().resolve(session, self.tenant, model)).version


@pytest.fixture
async def registry(
    database: Database, system_database: Database, tenant: TenantPrincipal, base: ModuleTable
) -> Registry:
    versions = tuple(map(PlannedVersion, (READY, READY, READY, REJECTED)))
    await add_adapter(system_database, tenant, base, PlannedAdapter("support", True, versions))
    return Registry(database, tenant)


async def test_a_bare_name_means_prod_where_it_is_set_and_else_the_newest(
    registry: Registry,
) -> None:
    assert await registry.called("support") == 3
    await registry.point("prod", 1)
    assert await registry.called("support") == await registry.called("support:prod") == 1
    assert await registry.called("support:latest") == 3
    assert await registry.called("support:v2") == 2
    await registry.point("canary", 2)
    assert await registry.called(f"{registry.tenant.tenant_name}/support:canary") == 2
    await registry.do(aliases.remove_alias, "prod", 1)
    assert await registry.called("support") == 3
    with pytest.raises(ModelNotFound, match="no alias 'prod'"):
        await registry.called("support:prod")


async def test_every_move_is_for_one_generation_and_kept(registry: Registry) -> None:
    assert (await registry.point("prod", 1)).generation == 1
    with pytest.raises(ConditionMissing):
        await registry.point("prod", 2)
    with pytest.raises(AliasChanged, match="has generation 1, not 2"):
        await registry.point("prod", 2, expected=2)
    assert (await registry.point("prod", 2, expected=1)).generation == 2
    assert (await registry.point("prod", 2, expected=2)).generation == 2  # nothing to move
    moves = (await registry.do(aliases.list_moves, "prod")).items
    assert [(m.generation, m.kind, m.from_version, m.to_version) for m in moves] == [
        (2, MoveKind.SET, 1, 2),
        (1, MoveKind.SET, None, 1),
    ]


async def test_rolling_back_restores_the_former_version_and_twice_is_forth(
    registry: Registry,
) -> None:
    await registry.point("prod", 1)
    with pytest.raises(NothingToRollBack):
        await registry.do(aliases.roll_back_alias, "prod", 1)
    await registry.point("prod", 3, expected=1)
    for generation, version in ((3, 1), (4, 3)):
        view = await registry.do(aliases.roll_back_alias, "prod", generation - 1)
        assert (view.generation, view.version) == (generation, version)
    with pytest.raises(ConditionMissing):
        await registry.do(aliases.roll_back_alias, "prod", None)


async def test_a_removed_alias_comes_back_with_later_generations(registry: Registry) -> None:
    await registry.point("prod", 1)
    with pytest.raises(ConditionMissing):
        await registry.do(aliases.remove_alias, "prod", None)
    await registry.do(aliases.remove_alias, "prod", 1)
    with pytest.raises(AliasNotFound):
        await registry.do(aliases.get_alias, "prod")
    with pytest.raises(AliasChanged, match="is not set"):
        await registry.point("prod", 2, expected=2)
    assert (await registry.point("prod", 2)).generation == 3
    kinds = [move.kind for move in (await registry.do(aliases.list_moves, "prod")).items]
    assert kinds == [MoveKind.SET, MoveKind.REMOVED, MoveKind.SET]


async def test_of_many_movers_at_once_one_wins(registry: Registry) -> None:
    async def try_to(version: int) -> bool:
        try:
            await registry.point("prod", version, expected=1)
        except AliasChanged:
            return False
        return True

    await registry.point("prod", 1)
    won = await asyncio.gather(*(try_to(2 + number % 2) for number in range(8)))
    assert sum(won) == 1
    assert (await registry.do(aliases.get_alias, "prod")).generation == 2


async def test_of_many_who_set_it_first_one_wins(registry: Registry) -> None:
    results = await asyncio.gather(
        *(registry.point("new", 1 + number % 3) for number in range(6)), return_exceptions=True
    )
    assert sum(isinstance(one, AliasView) for one in results) == 1
    assert sum(isinstance(one, ConditionMissing) for one in results) == 5


async def test_an_alias_is_never_pointed_at_what_cannot_be_called(registry: Registry) -> None:
    with pytest.raises(VersionNotCallable, match="rejected"):
        await registry.point("prod", 4)
    with pytest.raises(VersionNotFound):
        await registry.point("prod", 5)
    assert [one.alias for one in (await registry.do(aliases.list_aliases)).items] == ["latest"]


@pytest.mark.parametrize("alias", ["latest", "v3", "Prod"])
async def test_names_that_mean_something_else_cannot_be_set(alias: str, registry: Registry) -> None:
    with pytest.raises(InvalidAliasName):
        await registry.point(alias, 1)


async def test_latest_is_listed_and_cannot_be_moved(registry: Registry) -> None:
    await registry.point("prod", 1)
    latest, prod = (await registry.do(aliases.list_aliases)).items
    assert (latest.alias, latest.version, latest.generation) == ("latest", 3, None)
    assert prod == await registry.do(aliases.get_alias, "prod")
    assert latest == await registry.do(aliases.get_alias, "latest")
    with pytest.raises(AliasNotFound):
        await registry.do(aliases.remove_alias, "latest", 1)


async def test_a_neighbour_sees_nothing_and_moves_nothing(
    registry: Registry, make_tenant: MakeTenant
) -> None:
    await registry.point("prod", 1)
    stranger = Registry(registry.database, await make_tenant())
    for action, *arguments in (
        (aliases.list_aliases,),
        (aliases.get_alias, "prod"),
        (aliases.list_moves, "prod"),
        (aliases.set_alias, "prod", 2, 1),
        (aliases.remove_alias, "prod", 1),
        (aliases.roll_back_alias, "prod", 1),
    ):
        with pytest.raises(AdapterNotFound):
            await stranger.do(action, *arguments)
    assert await registry.called("support") == 1


async def test_a_move_is_told_to_webhooks_in_its_own_transaction(
    registry: Registry, system_database: Database
) -> None:
    await registry.point("prod", 1)
    with pytest.raises(ConditionMissing):
        await registry.point("prod", 2)
    async with system_database.unit_of_work() as session:
        statement = select(WebhookEvent).where(
            WebhookEvent.tenant_id == registry.tenant.tenant_id, WebhookEvent.type == "alias.moved"
        )
        (event,) = (await session.scalars(statement)).all()
    assert event.data == {
        "adapter": "support",
        "alias": "prod",
        "generation": 1,
        "kind": "set",
        "from_version": None,
        "to_version": 1,
    }
