"""Listed ⇔ callable, and what each way of naming a version finds."""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from uuid import uuid4

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loraplex.adapters_registry.errors import AdapterNotFound, ModelNotFound, VersionNotFound
from loraplex.adapters_registry.objects import blob_key
from loraplex.adapters_registry.versions.models import Adapter, AdapterVersion, VersionStatus
from loraplex.adapters_registry.versions.repository import VersionRepository
from loraplex.adapters_registry.versions.service import Catalogue, register_base
from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, TensorRef
from loraplex.engine.protocol.identity import Digest, digest_of_bytes
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.conftest import MakeTenant
from tests.adapters_registry.samples import TINY, examples

READY, REJECTED = VersionStatus.READY, VersionStatus.REJECTED


@dataclass(frozen=True)
class PlannedVersion:
    status: VersionStatus
    is_for_old_base: bool = False


@dataclass(frozen=True)
class PlannedAdapter:
    name: str
    is_of_served_base: bool
    versions: tuple[PlannedVersion, ...]


def spec(digest: Digest, base_digest: Digest) -> AdapterSpec:
    a = TensorRef("a", "F32", (4, 32), 0, 512)
    b = TensorRef("b", "F32", (32, 4), 512, 1024)
    module = AdapterModule("model.layers.0.self_attn.q_proj", 0, "q_proj", 4, 1 / 3, a, b)
    return AdapterSpec(digest, base_digest, digest_of_bytes(digest.encode()), 1024, (module,))


async def add_adapter(
    database: Database, tenant: TenantPrincipal, base: ModuleTable, plan: PlannedAdapter
) -> list[AdapterSpec]:
    """Write an adapter with its versions, numbered from 1; their specs."""
    specs = []
    async with database.unit_of_work() as session:
        row = await VersionRepository(session).base_by_name(base.base_name)
        assert row is not None
        adapter = Adapter(tenant_id=tenant.tenant_id, name=plan.name, base_model_id=row.id)
        session.add(adapter)
        await session.flush()
        for number, version in enumerate(plan.versions, start=1):
            made_for = digest_of_bytes(b"old") if version.is_for_old_base else base.base_digest
            made = spec(digest_of_bytes(uuid4().bytes), made_for)
            specs.append(made)
            is_ready = version.status is READY
            session.add(
                AdapterVersion(
                    tenant_id=tenant.tenant_id,
                    adapter_id=adapter.id,
                    number=number,
                    digest=made.digest,
                    base_digest=made_for,
                    status=version.status,
                    config_digest=made.digest,
                    weights_digest=made.weights_digest,
                    size_bytes=1024,
                    deadline_at=datetime.now(UTC),
                    **({"spec": msgspec.to_builtins(made)} if is_ready else {}),
                )
            )
    return specs


planned_versions = st.lists(
    st.builds(PlannedVersion, st.sampled_from(VersionStatus), st.booleans()), max_size=3
).map(tuple)
planned_tenants = st.lists(
    st.lists(
        st.builds(
            PlannedAdapter,
            st.sampled_from(["support", "sales", "x"]),
            st.booleans(),
            planned_versions,
        ),
        max_size=3,
        unique_by=lambda adapter: adapter.name,
    ),
    min_size=1,
    max_size=3,
)


@settings(
    max_examples=examples(12, 500),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(plans=planned_tenants)
async def test_exactly_what_is_listed_can_be_called(
    database: Database,
    system_database: Database,
    base: ModuleTable,
    make_tenant: MakeTenant,
    plans: list[list[PlannedAdapter]],
) -> None:
    other_base = msgspec.structs.replace(TINY, base_name=f"other-{uuid4().hex}")
    async with system_database.unit_of_work() as session:
        await register_base(session, other_base)
    catalogue = Catalogue({base.base_name})
    tenants = [await make_tenant() for _ in plans]
    for tenant, adapters in zip(tenants, plans, strict=True):
        for adapter in adapters:
            made_of = base if adapter.is_of_served_base else other_base
            await add_adapter(system_database, tenant, made_of, adapter)

    names = {f"{t.tenant_name}/{a}" for t, a in product(tenants, ["support", "sales", "x"])}
    names |= {base.base_name, other_base.base_name, "never/heard-of"}
    for tenant in tenants:
        async with database.unit_of_work(tenant.tenant_id) as session:
            listed = [model.id for model in await catalogue.callable_models(session, tenant)]
            assert len(listed) == len(set(listed))
            called = set()
            for name in names | set(listed):
                try:
                    called.add((await catalogue.resolve(session, tenant, name)).id)
                except ModelNotFound as refused:
                    assert refused.field == "model"
                    assert name not in listed
            assert called == set(listed)
            assert base.base_name in listed


async def test_a_base_resolves_to_itself(
    database: Database, tenant: TenantPrincipal, base: ModuleTable
) -> None:
    async with database.unit_of_work(tenant.tenant_id) as session:
        resolved = await Catalogue().resolve(session, tenant, base.base_name)
    assert resolved.base_name == resolved.id == base.base_name
    assert resolved.base_digest == base.base_digest
    assert resolved.spec is None
    assert resolved.version is None


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
