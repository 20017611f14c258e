"""Finds the version a model name means, and lists exactly what can be called."""

from collections import OrderedDict
from collections.abc import Collection
from uuid import UUID

import msgspec
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import AdapterNotFound, ModelNotFound, VersionNotFound
from loraplex.adapters_registry.versions import pointers
from loraplex.adapters_registry.versions.bases import KnownBases, base_among, check_may_call
from loraplex.adapters_registry.versions.names import (
    LATEST,
    ModelName,
    canonical_name,
    parse_model_name,
)
from loraplex.adapters_registry.versions.repository import CallableVersion, VersionRepository
from loraplex.adapters_registry.versions.standing import obstacle
from loraplex.adapters_registry.versions.views import (
    AdapterView,
    CallableModel,
    ResolvedModel,
    VersionView,
)
from loraplex.engine.protocol.adapter import AdapterSpec
from loraplex.engine.protocol.identity import Digest
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.blobs import blob_key
from loraplex.platform.database.pages import FIRST_PAGE, Page, PageRequest
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.principals import TenantPrincipal

PLATFORM = "loraplex"
MAX_KEPT_SPECS = 256


async def register_base(session: AsyncSession, table: ModuleTable) -> None:
    """Make a base model known, or take over what its files have become. Needs role `system`."""
    await VersionRepository(session).register_base(table)


class Catalogue:
    """Names to versions, for one gateway. Holds nothing that another gateway would miss.

    `base_names` are the bases this gateway serves; None stands for every registered one. What
    lies outside them is neither listed nor callable.

    Which bases there are it remembers for `base_seconds`: they change when an operator deploys
    another one. What tenants' names mean is asked for every time.
    """

    def __init__(
        self,
        base_names: Collection[str] | None = None,
        *,
        base_seconds: float = 0.0,
    ) -> None:
        self.base_names = base_names
        self._bases = KnownBases(base_names, base_seconds)
        # A ready version's spec never changes; keyed by row, so tenants share nothing here.
        self._specs: OrderedDict[UUID, AdapterSpec] = OrderedDict()

    async def resolve(
        self, session: AsyncSession, principal: TenantPrincipal, model: str, *, sticky_key: str = ""
    ) -> ResolvedModel:
        """Pin a model name to a base or to one immutable version. Raises ModelNotFound.

        While a rollout splits the name, `sticky_key` decides: the same key gets the same version.
        """
        rows = VersionRepository(session)
        if (found := base_among(await self._bases.all(rows), principal, model)) is not None:
            return found
        name = parse_model_name(model)
        if name is None or name.tenant not in (None, principal.tenant_name):
            raise ModelNotFound(model)
        check_may_call(principal, name.adapter, model)
        row = await self._meant(rows, principal, name, sticky_key)
        if row is None or not self._bases.serves(row.base.name):
            raise ModelNotFound(model, await self._why_not(rows, principal, name))
        adapter, version, base = row
        alias = None if name.alias == LATEST else name.alias
        return ResolvedModel(
            base_name=base.name,
            base_digest=Digest(base.digest),
            id=canonical_name(principal.tenant_name, adapter.name, alias=alias),
            created=int(version.created_at.timestamp()),
            adapter_name=adapter.name,
            adapter_id=adapter.id,
            version=version.number,
            spec=await self._spec(rows, principal, version.id),
            weights_key=blob_key(principal.namespace, Digest(version.weights_digest)),
        )

    def remembered_base(self, principal: TenantPrincipal, model: str) -> ResolvedModel | None:
        """What `resolve` gives for a base's name, where that needs no question to Postgres."""
        return self._bases.remembered(principal, model)

    async def check_known(self, session: AsyncSession, tenant_id: TenantId, name: str) -> None:
        """Raise ModelNotFound unless there is a base, or an adapter of the tenant, of this name."""
        rows = VersionRepository(session)
        if name in [base.base_name for base in await self._bases.all(rows)]:
            return
        if await rows.adapter(tenant_id, name) is None:
            raise ModelNotFound(name)

    async def callable_models(
        self, session: AsyncSession, principal: TenantPrincipal
    ) -> list[CallableModel]:
        """Every base, adapter and alias that `resolve` finds for this tenant, by canonical name.

        What names one version, by number, digest or `latest`, can be called without being listed.
        """
        rows = VersionRepository(session)
        found = [
            CallableModel(base.base_name, base.created, PLATFORM, parent=None)
            for base in await self._bases.all(rows)
            if principal.may_call(base.base_name)
        ]
        for is_bare, named in (
            (True, await pointers.bare_names(session, principal.tenant_id)),
            (False, await pointers.aliases_set(session, principal.tenant_id)),
        ):
            for pointer in named:
                version = pointer.main_version
                if version is None or not self._bases.serves(pointer.base.name):
                    continue
                if not principal.may_call(pointer.adapter.name):
                    continue
                alias = None if is_bare or pointer.alias is None else pointer.alias.name
                found.append(
                    CallableModel(
                        canonical_name(principal.tenant_name, pointer.adapter.name, alias=alias),
                        int(version.created_at.timestamp()),
                        owned_by=principal.tenant_name,
                        parent=pointer.base.name,
                    )
                )
        return found

    async def list_adapters(
        self,
        session: AsyncSession,
        principal: TenantPrincipal,
        wanted: PageRequest = FIRST_PAGE,
        *,
        deleted: bool = False,
    ) -> Page[AdapterView]:
        """A tenant's adapters by name, those without a ready version too; or the deleted ones.

        Raises InvalidCursor.
        """
        rows = VersionRepository(session)
        page = await rows.adapters(principal.tenant_id, wanted, deleted=deleted)
        return page.map(lambda row: AdapterView.of(*row, principal.tenant_name))

    async def get_adapter(
        self, session: AsyncSession, principal: TenantPrincipal, name: str
    ) -> AdapterView:
        """One adapter; raises AdapterNotFound."""
        found = await VersionRepository(session).adapter(principal.tenant_id, name)
        if found is None:
            raise AdapterNotFound(name)
        return AdapterView.of(*found, principal.tenant_name)

    async def list_versions(
        self,
        session: AsyncSession,
        principal: TenantPrincipal,
        name: str,
        wanted: PageRequest = FIRST_PAGE,
        *,
        deleted: bool = False,
    ) -> Page[VersionView]:
        """An adapter's versions, or the deleted ones, newest first.

        Raises AdapterNotFound and InvalidCursor.
        """
        rows = VersionRepository(session)
        page = await rows.versions(principal.tenant_id, name, wanted, deleted=deleted)
        if not page.items and await rows.adapter(principal.tenant_id, name) is None:
            raise AdapterNotFound(name)
        return page.map(lambda row: VersionView.of(row[0], principal.tenant_name, name))

    async def get_version(
        self, session: AsyncSession, principal: TenantPrincipal, name: str, number: int
    ) -> VersionView:
        """One version; raises AdapterNotFound and VersionNotFound."""
        rows = VersionRepository(session)
        found = await rows.version(principal.tenant_id, name, number)
        if found is not None:
            return VersionView.of(found, principal.tenant_name, name)
        if await rows.adapter(principal.tenant_id, name) is not None:
            raise VersionNotFound(name, number)
        raise AdapterNotFound(name)

    async def _meant(
        self, rows: VersionRepository, principal: TenantPrincipal, name: ModelName, sticky_key: str
    ) -> CallableVersion | None:
        tenant_id = principal.tenant_id
        if name.number is not None or name.digest is not None:
            return await rows.callable_version(tenant_id, name.adapter, name.number, name.digest)
        pointer = await pointers.pointer(rows.session, tenant_id, name.adapter, name.alias)
        version = None if pointer is None else pointer.version_for(tenant_id, sticky_key)
        if pointer is None or version is None:
            return None
        return CallableVersion(pointer.adapter, version, pointer.base)

    async def _spec(
        self, rows: VersionRepository, principal: TenantPrincipal, version_id: UUID
    ) -> AdapterSpec:
        spec = self._specs.get(version_id)
        if spec is None:
            stored = await rows.spec(principal.tenant_id, version_id)
            spec = msgspec.convert(stored, AdapterSpec)
            self._specs[version_id] = spec
        self._specs.move_to_end(version_id)
        while len(self._specs) > MAX_KEPT_SPECS:
            self._specs.popitem(last=False)
        return spec

    async def _why_not(
        self, rows: VersionRepository, principal: TenantPrincipal, name: ModelName
    ) -> str:
        """A sentence for the owner, who may know what state the own versions are in."""
        tenant_id, number = principal.tenant_id, name.number
        if number is None and name.digest is None:
            pointer = await pointers.pointer(rows.session, tenant_id, name.adapter, name.alias)
            if pointer is not None and pointer.alias is not None:
                number = pointer.alias.version
            elif name.alias not in (None, LATEST) and await rows.adapter(tenant_id, name.adapter):
                return f" The adapter has no alias {name.alias!r}."
        found = await rows.version_and_base(tenant_id, name.adapter, number, name.digest)
        if found is None:
            return ""
        version, base = found
        why = obstacle(version, base)
        return "" if why is None else f" Version {version.number} {why}."
