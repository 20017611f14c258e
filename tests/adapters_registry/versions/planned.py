"""Adapters written straight into the tables, each version in the state a test wants."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

import msgspec
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.rollouts.models import Alias, Rollout, RolloutStatus
from loraplex.adapters_registry.versions.models import Adapter, AdapterVersion, VersionStatus
from loraplex.adapters_registry.versions.repository import VersionRepository
from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, TensorRef
from loraplex.engine.protocol.identity import Digest, digest_of_bytes
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.principals import TenantPrincipal


@dataclass(frozen=True)
class PlannedVersion:
    status: VersionStatus
    is_for_old_base: bool = False


@dataclass(frozen=True)
class PlannedAlias:
    """An alias of version `version`; with a candidate it has an open rollout."""

    name: str
    version: int
    candidate: int | None = None
    weight: int = 0
    is_paused: bool = False


@dataclass(frozen=True)
class PlannedAdapter:
    name: str
    is_of_served_base: bool
    versions: tuple[PlannedVersion, ...]
    aliases: tuple[PlannedAlias, ...] = ()


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
            is_ready = version.status is VersionStatus.READY
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
        await session.flush()
        for alias in plan.aliases:
            await add_alias(session, adapter, alias)
    return specs


async def add_alias(session: AsyncSession, adapter: Adapter, plan: PlannedAlias) -> None:
    owner = {"tenant_id": adapter.tenant_id, "adapter_id": adapter.id}
    session.add(Alias(**owner, name=plan.name, version=plan.version, generation=1))
    await session.flush()
    if plan.candidate is not None:
        session.add(
            Rollout(
                **owner,
                alias=plan.name,
                stable_version=plan.version,
                candidate_version=plan.candidate,
                weight=plan.weight,
                status=RolloutStatus.PAUSED if plan.is_paused else RolloutStatus.RUNNING,
                error_rate_limit=5,
                window_seconds=300,
                minimum_requests=20,
            )
        )
