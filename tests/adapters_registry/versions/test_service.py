"""Listed ⇔ callable, and what each way of naming a version finds."""

from dataclasses import replace
from itertools import product
from uuid import uuid4

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import AdapterNotFound, ModelNotFound, VersionNotFound
from loraplex.adapters_registry.versions.models import VersionStatus
from loraplex.adapters_registry.versions.service import Catalogue, register_base
from loraplex.engine.protocol.identity import digest_of_bytes
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.blobs import blob_key
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.conftest import MakeTenant
from tests.adapters_registry.samples import TINY
from tests.adapters_registry.versions.planned import (
    PlannedAdapter,
    PlannedAlias,
    PlannedVersion,
    add_adapter,
)
from tests.soak import examples

READY, REJECTED = VersionStatus.READY, VersionStatus.REJECTED


ADAPTERS, ALIASES = ["support", "x"], ["prod", "canary"]


@st.composite
def planned_adapters(draw: st.DrawFn, name: str) -> PlannedAdapter:
    version = st.builds(PlannedVersion, st.sampled_from(VersionStatus), st.booleans())
    versions = tuple(draw(st.lists(version, max_size=3)))
    numbers = st.integers(1, max(1, len(versions)))
    aliases = []
    for alias in draw(st.sets(st.sampled_from(ALIASES))) if versions else ():
        points_at, candidate = draw(numbers), draw(st.none() | numbers)
        aliases.append(
            PlannedAlias(
                alias,
                points_at,
                None if candidate == points_at else candidate,
                draw(st.sampled_from([0, 1, 50, 100])),
                draw(st.booleans()),
            )
        )
    return PlannedAdapter(name, draw(st.booleans()), versions, tuple(aliases))


SERVED_BASE = "the base that is served"
allow_lists = st.lists(
    st.none() | st.sets(st.sampled_from([*ADAPTERS, SERVED_BASE])), min_size=2, max_size=2
)


def models_of(names: set[str] | None, base_name: str) -> frozenset[str] | None:
    """A key's allow-list, in which the base has its name."""
    if names is None:
        return None
    return frozenset(base_name if name == SERVED_BASE else name for name in names)


planned_tenants = st.lists(
    st.sets(st.sampled_from(ADAPTERS)).flatmap(
        lambda names: st.tuples(*(planned_adapters(name) for name in sorted(names)))
    ),
    min_size=1,
    max_size=2,
)


@settings(
    max_examples=examples(8, 500),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(plans=planned_tenants, allowed=allow_lists)
async def test_exactly_what_is_listed_can_be_called(
    database: Database,
    system_database: Database,
    base: ModuleTable,
    make_tenant: MakeTenant,
    plans: list[tuple[PlannedAdapter, ...]],
    allowed: list[set[str] | None],
) -> None:
    other_base = msgspec.structs.replace(TINY, base_name=f"other-{uuid4().hex}")
    async with system_database.unit_of_work() as session:
        await register_base(session, other_base)
    catalogue = Catalogue({base.base_name})
    tenants = [
        replace(await make_tenant(), models=models_of(names, base.base_name))
        for names, _ in zip(allowed, plans, strict=False)
    ]
    for tenant, adapters in zip(tenants, plans, strict=True):
        for adapter in adapters:
            made_of = base if adapter.is_of_served_base else other_base
            await add_adapter(system_database, tenant, made_of, adapter)

    suffixes = ["", *(f":{alias}" for alias in ALIASES)]
    names = {f"{t.tenant_name}/{a}{s}" for t, a, s in product(tenants, ADAPTERS, suffixes)}
    names |= {base.base_name, other_base.base_name, "never/heard-of"}
    by_number = {f"{t.tenant_name}/{a}:v1" for t, a in product(tenants, ADAPTERS)}
    for tenant, adapters in zip(tenants, plans, strict=True):
        ready = {
            (adapter.name, number)
            for adapter in adapters
            for number, version in enumerate(adapter.versions, start=1)
            if version.status is READY and not version.is_for_old_base
            if tenant.may_call(adapter.name)
        }
        async with database.unit_of_work(tenant.tenant_id) as session:
            listed = [model.id for model in await catalogue.callable_models(session, tenant)]
        assert len(listed) == len(set(listed))
        assert (base.base_name in listed) == tenant.may_call(base.base_name)
        for name in names | set(listed):
            async with database.unit_of_work(tenant.tenant_id) as session:
                served = await served_to(catalogue, session, tenant, name)
            assert (None not in served) == (name in listed)
            assert name in listed or served == {None}  # never for some people only
            assert served - {None, (None, None)} <= ready
        for name in by_number:
            async with database.unit_of_work(tenant.tenant_id) as session:
                assert await served_to(catalogue, session, tenant, name) - {None} <= ready


async def served_to(
    catalogue: Catalogue, session: AsyncSession, tenant: TenantPrincipal, name: str
) -> set[tuple[str | None, int | None] | None]:
    """What a few conversations get under a name; None for those that are refused."""
    served: set[tuple[str | None, int | None] | None] = set()
    for conversation in range(2):
        key = f"conversation/{conversation}"
        try:
            found = await catalogue.resolve(session, tenant, name, sticky_key=key)
            assert found.id == name.removesuffix(":v1")  # as it is listed
            served.add((found.adapter_name, found.version))
        except ModelNotFound as refused:
            assert refused.field == "model"
            served.add(None)
    return served


async def test_a_base_resolves_to_itself(
    database: Database, tenant: TenantPrincipal, base: ModuleTable
) -> None:
    async with database.unit_of_work(tenant.tenant_id) as session:
        resolved = await Catalogue().resolve(session, tenant, base.base_name)
    assert resolved.base_name == resolved.id == base.base_name
    assert resolved.base_digest == base.base_digest
    assert resolved.spec is None
    assert resolved.version is None


async def test_bases_are_remembered_as_long_as_is_said(
    database: Database, tenant: TenantPrincipal, base: ModuleTable
) -> None:
    asking, remembering = Catalogue(), Catalogue(base_seconds=60)
    other = replace(tenant, models=frozenset({"support"}))
    for catalogue in (asking, remembering):
        assert catalogue.remembered_base(tenant, base.base_name) is None
        with pytest.raises(ModelNotFound):  # and rolls back what was read with it
            async with database.unit_of_work(tenant.tenant_id) as session:
                await catalogue.resolve(session, tenant, "nothing-of-this-name")
    assert asking.remembered_base(tenant, base.base_name) is None
    async with database.unit_of_work(tenant.tenant_id) as session:
        resolved = await asking.resolve(session, tenant, base.base_name)
    assert remembering.remembered_base(tenant, base.base_name) == resolved
    assert remembering.remembered_base(tenant, "support") is None
    with pytest.raises(ModelNotFound):
        remembering.remembered_base(other, base.base_name)


async def test_a_bare_name_means_the_newest_ready_version(
    database: Database, system_database: Database, tenant: TenantPrincipal, base: ModuleTable
) -> None:
    versions = tuple(map(PlannedVersion, (READY, READY, REJECTED, VersionStatus.VALIDATING)))
    specs = await add_adapter(
        system_database, tenant, base, PlannedAdapter("support", True, versions)
    )
    catalogue = Catalogue()
    async with database.unit_of_work(tenant.tenant_id) as session:
        for name in ("support", f"{tenant.tenant_name}/support", "support:latest", "support:v2"):
            for _ in range(2):  # the second time from what the gateway has kept
                resolved = await catalogue.resolve(session, tenant, name)
                assert resolved.version == 2
                assert resolved.spec == specs[1]
                assert resolved.adapter_name == "support"
                assert resolved.id == f"{tenant.tenant_name}/support"
                assert resolved.weights_key == blob_key(tenant.namespace, specs[1].weights_digest)
        first = await catalogue.resolve(session, tenant, f"support@{specs[0].digest}")
        assert (first.version, first.spec) == (1, specs[0])


async def test_an_owner_is_told_why_a_version_cannot_be_called(
    database: Database, system_database: Database, tenant: TenantPrincipal, base: ModuleTable
) -> None:
    versions = (
        PlannedVersion(REJECTED),
        PlannedVersion(VersionStatus.UPLOADED),
        PlannedVersion(READY, is_for_old_base=True),
    )
    await add_adapter(system_database, tenant, base, PlannedAdapter("support", True, versions))
    expected = {
        "support:v1": "rejected",
        "support:v2": "still being checked",
        "support:v3": "another base",
        "support:v4": "does not exist",
        "support:latest": "another base",
        f"support@{digest_of_bytes(b'?')}": "does not exist",
    }
    async with database.unit_of_work(tenant.tenant_id) as session:
        for name, words in expected.items():
            with pytest.raises(ModelNotFound, match=words):
                await Catalogue().resolve(session, tenant, name)


async def test_a_neighbours_adapter_looks_like_one_that_never_was(
    database: Database, system_database: Database, make_tenant: MakeTenant, base: ModuleTable
) -> None:
    owner, stranger = await make_tenant(), await make_tenant()
    plan = PlannedAdapter("support", True, (PlannedVersion(READY), PlannedVersion(REJECTED)))
    await add_adapter(system_database, owner, base, plan)
    catalogue = Catalogue()
    async with database.unit_of_work(stranger.tenant_id) as session:
        for name in ("support", f"{owner.tenant_name}/support", f"{owner.tenant_name}/support:v2"):
            with pytest.raises(ModelNotFound) as refused:
                await catalogue.resolve(session, stranger, name)
            assert refused.value.message.replace(name, "?") == ModelNotFound("?").message
        assert (await catalogue.list_adapters(session, stranger)).items == []
        with pytest.raises(AdapterNotFound):
            await catalogue.get_adapter(session, stranger, "support")
        with pytest.raises(AdapterNotFound):
            await catalogue.list_versions(session, stranger, "support")
        with pytest.raises(AdapterNotFound):
            await catalogue.get_version(session, stranger, "support", 1)


async def test_two_tenants_of_one_name_each_get_their_own(
    database: Database, system_database: Database, make_tenant: MakeTenant, base: ModuleTable
) -> None:
    tenants = [await make_tenant(), await make_tenant()]
    plan = PlannedAdapter("support", True, (PlannedVersion(READY),))
    specs = [await add_adapter(system_database, tenant, base, plan) for tenant in tenants]
    catalogue = Catalogue()
    for tenant, (own,) in zip(tenants, specs, strict=True):
        async with database.unit_of_work(tenant.tenant_id) as session:
            assert (await catalogue.resolve(session, tenant, "support")).spec == own


async def test_the_owner_sees_every_version_whatever_its_status(
    database: Database, system_database: Database, tenant: TenantPrincipal, base: ModuleTable
) -> None:
    plan = PlannedAdapter("support", True, (PlannedVersion(READY), PlannedVersion(REJECTED)))
    await add_adapter(system_database, tenant, base, plan)
    await add_adapter(system_database, tenant, base, PlannedAdapter("empty", True, ()))
    catalogue = Catalogue()
    async with database.unit_of_work(tenant.tenant_id) as session:
        empty, support = (await catalogue.list_adapters(session, tenant)).items
        assert (empty.name, empty.latest_version) == ("empty", None)
        assert support == await catalogue.get_adapter(session, tenant, "support")
        assert support.latest_version is not None
        assert support.latest_version.status is REJECTED
        assert support.base == base.base_name
        versions = (await catalogue.list_versions(session, tenant, "support")).items
        assert [version.version for version in versions] == [2, 1]
        assert versions[1] == await catalogue.get_version(session, tenant, "support", 1)
        assert versions[1].model == f"{tenant.tenant_name}/support:v1"
        assert (await catalogue.list_versions(session, tenant, "empty")).items == []
        with pytest.raises(VersionNotFound):
            await catalogue.get_version(session, tenant, "support", 3)


async def test_a_base_whose_files_changed_takes_its_adapters_out_of_service(
    database: Database, system_database: Database, tenant: TenantPrincipal, base: ModuleTable
) -> None:
    plan = PlannedAdapter("support", True, (PlannedVersion(READY),))
    await add_adapter(system_database, tenant, base, plan)
    changed = msgspec.structs.replace(base, base_digest=digest_of_bytes(b"changed"))
    async with system_database.unit_of_work() as session:
        await register_base(session, changed)
    async with database.unit_of_work(tenant.tenant_id) as session:
        with pytest.raises(ModelNotFound, match="another base model"):
            await Catalogue().resolve(session, tenant, "support")
