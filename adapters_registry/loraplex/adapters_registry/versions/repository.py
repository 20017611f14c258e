"""Queries for bases, adapters and versions."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import Select, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from loraplex.adapters_registry.errors import AdapterDeleted
from loraplex.adapters_registry.versions.models import Adapter, AdapterVersion, BaseModel
from loraplex.adapters_registry.versions.standing import is_callable
from loraplex.engine.protocol.identity import Digest
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.tenancy.identity import TenantId

ADAPTERS_BY_NAME = Keyset("adapters", Adapter.name)
NEWEST_VERSIONS = Keyset("versions", AdapterVersion.number, descending=True)


class CallableVersion(NamedTuple):
    adapter: Adapter
    version: AdapterVersion
    base: BaseModel


class HeldAdapter(NamedTuple):
    adapter: Adapter
    base: BaseModel


class AdapterRow(NamedTuple):
    adapter: Adapter
    base_name: str
    latest: AdapterVersion | None


def callable_versions(tenant_id: TenantId) -> "Select[Adapter, AdapterVersion, BaseModel]":
    """Every version this tenant may call."""
    return (
        select(Adapter, AdapterVersion, BaseModel)
        .join(
            AdapterVersion,
            (AdapterVersion.adapter_id == Adapter.id)
            & (AdapterVersion.tenant_id == Adapter.tenant_id),
        )
        .join(BaseModel, BaseModel.id == Adapter.base_model_id)
        .where(
            Adapter.tenant_id == tenant_id,
            Adapter.deleted_at.is_(None),
            is_callable(AdapterVersion, BaseModel),
        )
        .options(defer(AdapterVersion.spec), defer(BaseModel.module_table))
    )


class VersionRepository:
    """Rows by what identifies them; commits nothing."""

    def __init__(self, session: AsyncSession) -> None:
        self.session = session

    async def bases(self) -> Sequence[BaseModel]:
        statement = select(BaseModel).options(defer(BaseModel.module_table))
        return (await self.session.scalars(statement.order_by(BaseModel.name))).all()

    async def base_by_name(self, name: str) -> BaseModel | None:
        return await self.session.scalar(select(BaseModel).where(BaseModel.name == name))

    async def register_base(self, table: ModuleTable) -> None:
        """Record a base model or what its files have become."""
        values = {"digest": table.base_digest, "module_table": msgspec.to_builtins(table)}
        await self.session.execute(
            insert(BaseModel)
            .values(name=table.base_name, **values)
            .on_conflict_do_update(index_elements=[BaseModel.name], set_=values)
        )

    async def callable_version(
        self, tenant_id: TenantId, name: str, number: int | None, digest: Digest | None = None
    ) -> CallableVersion | None:
        """The callable version of this number or digest."""
        statement = callable_versions(tenant_id).where(Adapter.name == name)
        if number is not None:
            statement = statement.where(AdapterVersion.number == number)
        else:
            statement = statement.where(AdapterVersion.digest == digest)
        row = (await self.session.execute(statement)).first()
        return None if row is None else CallableVersion(*row)

    async def spec(self, tenant_id: TenantId, version_id: UUID) -> dict[str, object]:
        """The spec of a ready version."""
        mine = (AdapterVersion.tenant_id == tenant_id) & (AdapterVersion.id == version_id)
        spec = await self.session.scalar(select(AdapterVersion.spec).where(mine))
        assert spec is not None, "a ready version has a spec"
        return spec

    async def adapters(
        self, tenant_id: TenantId, wanted: PageRequest, *, deleted: bool = False
    ) -> Page[tuple[Adapter, str, AdapterVersion]]:
        """A tenant's adapters, by name, or the deleted ones; each with what `adapter` tells."""
        statement = _adapters(tenant_id).where(Adapter.deleted_at.is_not(None) == deleted)
        return await ADAPTERS_BY_NAME.page(self.session, statement, wanted)

    async def adapter(self, tenant_id: TenantId, name: str) -> AdapterRow | None:
        """An adapter with its base's name and newest version of any status."""
        statement = _adapters(tenant_id).where(Adapter.name == name)
        row = (await self.session.execute(statement)).first()
        return None if row is None else AdapterRow(*row)

    async def versions(
        self, tenant_id: TenantId, name: str, wanted: PageRequest, *, deleted: bool = False
    ) -> Page[tuple[AdapterVersion]]:
        """An adapter's versions, or the deleted ones, newest first."""
        is_wanted = AdapterVersion.deleted_at.is_not(None) == deleted
        statement = _versions(tenant_id, name).where(is_wanted)
        return await NEWEST_VERSIONS.page(self.session, statement, wanted)

    async def version(
        self,
        tenant_id: TenantId,
        name: str,
        number: int | None = None,
        digest: Digest | None = None,
    ) -> AdapterVersion | None:
        """The version meant, of any status; the newest when neither is given."""
        statement = _versions(tenant_id, name)
        if number is not None:
            statement = statement.where(AdapterVersion.number == number)
        if digest is not None:
            statement = statement.where(AdapterVersion.digest == digest)
        newest_first = statement.order_by(AdapterVersion.number.desc()).limit(1)
        return await self.session.scalar(newest_first)

    async def version_and_base(
        self, tenant_id: TenantId, name: str, number: int | None, digest: Digest | None
    ) -> tuple[AdapterVersion, BaseModel] | None:
        """The version meant, of any status, and its adapter's base; the newest of neither."""
        version = await self.version(tenant_id, name, number, digest)
        if version is None:
            return None
        statement = (
            select(BaseModel)
            .join(Adapter, Adapter.base_model_id == BaseModel.id)
            .where(Adapter.tenant_id == tenant_id, Adapter.id == version.adapter_id)
            .options(defer(BaseModel.module_table))
        )
        return version, (await self.session.scalars(statement)).one()

    async def hold_adapter(self, tenant_id: TenantId, name: str) -> HeldAdapter | None:
        """An adapter, deleted or not, and its base, held until this transaction ends.

        What its names point at stands still meanwhile.
        """
        statement = (
            select(Adapter, BaseModel)
            .join(BaseModel, BaseModel.id == Adapter.base_model_id)
            .where(Adapter.tenant_id == tenant_id, Adapter.name == name)
            .options(defer(BaseModel.module_table))
            .with_for_update(key_share=True, of=Adapter)
        )
        row = (await self.session.execute(statement)).first()
        return None if row is None else HeldAdapter(*row)

    async def lock_adapter(self, tenant_id: TenantId, name: str, base: BaseModel) -> Adapter:
        """The adapter, made when missing, held until this transaction ends.

        Holding it makes numbering and the search for identical bytes safe from a second upload.
        Raises AdapterDeleted: a deleted adapter keeps its name until it is purged.
        """
        made = insert(Adapter).values(tenant_id=tenant_id, name=name, base_model_id=base.id)
        await self.session.execute(
            made.on_conflict_do_nothing(index_elements=[Adapter.tenant_id, Adapter.name])
        )
        mine = (Adapter.tenant_id == tenant_id) & (Adapter.name == name)
        statement = select(Adapter).where(mine).with_for_update()
        adapter = (await self.session.scalars(statement)).one()
        if adapter.deleted_at is not None:
            raise AdapterDeleted(name)
        return adapter

    async def identical(self, adapter: Adapter, digest: Digest) -> AdapterVersion | None:
        statement = select(AdapterVersion).where(
            AdapterVersion.tenant_id == adapter.tenant_id,
            AdapterVersion.adapter_id == adapter.id,
            AdapterVersion.digest == digest,
        )
        return await self.session.scalar(statement.options(defer(AdapterVersion.spec)))

    async def next_number(self, adapter: Adapter) -> int:
        """A number that no version of the adapter ever had; the caller holds the adapter."""
        adapter.last_number += 1
        await self.session.flush()
        return adapter.last_number


def _adapters(tenant_id: TenantId) -> "Select[Adapter, str, AdapterVersion]":
    newest = (
        select(func.max(AdapterVersion.number))
        .where(AdapterVersion.adapter_id == Adapter.id, AdapterVersion.deleted_at.is_(None))
        .correlate(Adapter)
        .scalar_subquery()
    )
    return (
        select(Adapter, BaseModel.name, AdapterVersion)
        .join(BaseModel, BaseModel.id == Adapter.base_model_id)
        .outerjoin(
            AdapterVersion,
            (AdapterVersion.tenant_id == Adapter.tenant_id)
            & (AdapterVersion.adapter_id == Adapter.id)
            & (AdapterVersion.number == newest),
        )
        .where(Adapter.tenant_id == tenant_id)
        .options(defer(AdapterVersion.spec))
    )


def _versions(tenant_id: TenantId, name: str) -> "Select[AdapterVersion]":
    return (
        select(AdapterVersion)
        .join(Adapter, Adapter.id == AdapterVersion.adapter_id)
        .where(
            Adapter.tenant_id == tenant_id,
            AdapterVersion.tenant_id == tenant_id,
            Adapter.name == name,
        )
        .options(defer(AdapterVersion.spec))
    )
