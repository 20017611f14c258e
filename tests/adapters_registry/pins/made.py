"""Adapters that are ready, without an upload."""

from datetime import UTC, datetime
from uuid import uuid4

import msgspec

from loraplex.adapters_registry.versions.models import Adapter, AdapterVersion, VersionStatus
from loraplex.adapters_registry.versions.repository import VersionRepository
from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, TensorRef
from loraplex.engine.protocol.identity import digest_of_bytes
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.principals import TenantPrincipal


async def add_ready(
    database: Database, tenant: TenantPrincipal, base: ModuleTable, name: str
) -> AdapterSpec:
    """An adapter of this name with one version, which is ready; its spec."""
    digest = digest_of_bytes(uuid4().bytes)
    a = TensorRef("a", "F32", (4, 32), 0, 512)
    b = TensorRef("b", "F32", (32, 4), 512, 1024)
    module = AdapterModule("model.layers.0.self_attn.q_proj", 0, "q_proj", 4, 0.5, a, b)
    weights = digest_of_bytes(digest.encode())
    spec = AdapterSpec(digest, base.base_digest, weights, 1024, (module,))
    async with database.unit_of_work() as session:
        row = await VersionRepository(session).base_by_name(base.base_name)
        assert row is not None
        adapter = Adapter(tenant_id=tenant.tenant_id, name=name, base_model_id=row.id)
        session.add(adapter)
        await session.flush()
        session.add(
            AdapterVersion(
                tenant_id=tenant.tenant_id,
                adapter_id=adapter.id,
                number=1,
                digest=digest,
                base_digest=base.base_digest,
                status=VersionStatus.READY,
                config_digest=digest,
                weights_digest=weights,
                size_bytes=1024,
                deadline_at=datetime.now(UTC),
                spec=msgspec.to_builtins(spec),
            )
        )
    return spec
