"""What names without a version's number mean: which versions they point at, and with what shares.

Both listing and calling ask here, and nobody decides it elsewhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Row,
    Select,
    and_,
    bindparam,
    false,
    func,
    or_,
    select,
    true,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased, defer

from loraplex.adapters_registry.rollouts.models import Alias, Rollout, RolloutStatus
from loraplex.adapters_registry.rollouts.split import pick, place_of, shares
from loraplex.adapters_registry.versions.models import Adapter, AdapterVersion, BaseModel
from loraplex.adapters_registry.versions.names import LATEST, PROD
from loraplex.adapters_registry.versions.standing import is_callable
from loraplex.platform.tenancy.identity import TenantId

ANY: Final = "*"
"""Stands for every alias but LATEST; no alias's name."""
PointerSelect = Select[Adapter, BaseModel, Alias | None, Rollout | None, AdapterVersion | None]


@dataclass(slots=True)
class Pointer:
    """One name of one adapter, the callable versions it points at, and how they share it.

    `alias` is None where the name is bare and no `prod` is set, or means the newest.
    """

    adapter: Adapter
    base: BaseModel
    alias: Alias | None
    rollout: Rollout | None
    versions: dict[int, AdapterVersion] = field(default_factory=dict)

    @property
    def shares(self) -> dict[int, int]:
        """The shares of the versions by number; empty when the name cannot be called."""
        if self.alias is None:
            return dict.fromkeys(self.versions, 100)
        assert self.alias.version is not None, "an alias that is set points at a version"
        candidate = None if self.rollout is None else self.rollout.candidate_version
        weight = 0 if self.rollout is None else self.rollout.weight
        return shares(self.alias.version, candidate, weight, self.versions)

    def version_for(self, tenant_id: TenantId, sticky_key: str) -> AdapterVersion | None:
        """The one version a conversation gets; None when the name cannot be called."""
        found = self.shares
        if not found:
            return None
        if len(found) == 1:
            return self.versions[next(iter(found))]
        assert self.alias is not None and self.alias.version is not None
        assert self.rollout is not None, "only a rollout splits a name"
        place = place_of(tenant_id, self.rollout.id, sticky_key)
        return self.versions[pick(found, self.alias.version, place)]

    @property
    def main_version(self) -> AdapterVersion | None:
        """The version of the largest share, the stable one of equals."""
        found = self.shares
        return self.versions[max(found, key=lambda number: found[number])] if found else None


async def pointer(
    session: AsyncSession, tenant_id: TenantId, adapter_name: str, alias: str | None
) -> Pointer | None:
    """What an adapter's bare name (`alias` None) or one of its aliases means.

    None when there is no such adapter, or no such alias is set.
    """
    statement = _MEANINGS[alias if alias in (None, LATEST) else ANY]
    values = {"tenant": tenant_id, "adapter": adapter_name, "alias": alias or PROD}
    found = gathered(await session.execute(statement, values))
    return found[0] if found else None


async def bare_names(session: AsyncSession, tenant_id: TenantId) -> Sequence[Pointer]:
    """What the bare name of each of a tenant's adapters means."""
    rows = await session.execute(pointed(tenant_id, Alias.name == PROD, or_newest=True))
    return gathered(rows)


async def aliases_set(session: AsyncSession, tenant_id: TenantId) -> Sequence[Pointer]:
    """What each alias of a tenant's adapters means."""
    rows = await session.execute(pointed(tenant_id, true(), or_newest=False))
    return gathered(rows)


def pointed(
    tenant_id: "TenantId | BindParameter[TenantId]", which: ColumnElement[bool], *, or_newest: bool
) -> PointerSelect:
    """A row for each callable version of each name; one without a version where there is none.

    The names are the aliases `which` says of each live adapter; with `or_newest` an adapter that
    has none of them stands for its newest callable version.
    """
    newer = aliased(AdapterVersion)
    newest = (
        select(func.max(newer.number))
        .where(
            newer.tenant_id == tenant_id,
            newer.adapter_id == Adapter.id,
            is_callable(newer, BaseModel),
        )
        .correlate(Adapter, BaseModel)
        .scalar_subquery()
    )
    is_meant = or_(
        AdapterVersion.number == Alias.version,
        AdapterVersion.number == Rollout.candidate_version,
        and_(Alias.name.is_(None), AdapterVersion.number == newest) if or_newest else false(),
    )
    return (
        select(Adapter, BaseModel, Alias, Rollout, AdapterVersion)
        .join(BaseModel, BaseModel.id == Adapter.base_model_id)
        .join(
            Alias,
            and_(
                Alias.tenant_id == Adapter.tenant_id,
                Alias.adapter_id == Adapter.id,
                Alias.version.is_not(None),
                which,
            ),
            isouter=or_newest,
        )
        .outerjoin(
            Rollout,
            and_(
                Rollout.tenant_id == Alias.tenant_id,
                Rollout.adapter_id == Alias.adapter_id,
                Rollout.alias == Alias.name,
                Rollout.status == RolloutStatus.RUNNING,
            ),
        )
        .outerjoin(
            AdapterVersion,
            and_(
                AdapterVersion.tenant_id == Adapter.tenant_id,
                AdapterVersion.adapter_id == Adapter.id,
                is_callable(AdapterVersion, BaseModel),
                is_meant,
            ),
        )
        .where(Adapter.tenant_id == tenant_id, Adapter.deleted_at.is_(None))
        .options(defer(AdapterVersion.spec), defer(BaseModel.module_table))
        .order_by(Adapter.name, Alias.name)
    )


def _of_adapter(which: ColumnElement[bool], *, or_newest: bool) -> PointerSelect:
    pointers = pointed(bindparam("tenant"), which, or_newest=or_newest)
    return pointers.where(Adapter.name == bindparam("adapter"))


_IS_ALIAS = Alias.name == bindparam("alias")
_MEANINGS: Final[dict[str | None, PointerSelect]] = {
    LATEST: _of_adapter(false(), or_newest=True),
    None: _of_adapter(_IS_ALIAS, or_newest=True),
    ANY: _of_adapter(_IS_ALIAS, or_newest=False),
}
"""Of names that are called, by their alias. Made once: that takes longer than to ask them does."""


def gathered(
    rows: Iterable[Row[Adapter, BaseModel, Alias | None, Rollout | None, AdapterVersion | None]],
) -> list[Pointer]:
    """Rows as pointers, in their order."""
    found: dict[tuple[UUID, str | None], Pointer] = {}
    for adapter, base, alias, rollout, version in rows:
        key = (adapter.id, None if alias is None else alias.name)
        one = found.setdefault(key, Pointer(adapter, base, alias, rollout))
        if version is not None:
            one.versions[version.number] = version
    return list(found.values())
