"""The one way into the registry: verified bytes in the store become a version, or are one already.

Every way in (form, resumable upload, import) ends here, in one transaction with whatever row of
its own says that it has ended.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import OtherBase
from loraplex.adapters_registry.peft import adapter_digest
from loraplex.adapters_registry.uploads import quota
from loraplex.adapters_registry.versions import adapter_limit, lifecycle
from loraplex.adapters_registry.versions.models import AdapterVersion, BaseModel
from loraplex.adapters_registry.versions.repository import VersionRepository
from loraplex.adapters_registry.versions.views import VersionView
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.platform.lifecycle.standing import refuse_if_going
from loraplex.platform.switches.service import refuse_if_uploads_are_off
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit


class Owner(Protocol):
    """Whose adapter it is: an authenticated tenant, or what a job read from the tenant's row."""

    @property
    def tenant_id(self) -> TenantId: ...
    @property
    def tenant_name(self) -> str: ...
    @property
    def namespace(self) -> TenantNamespace: ...


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Bytes under the owner's `blob_key`, whose digest we computed."""

    digest: Digest
    size_bytes: int


async def register(
    session: AsyncSession,
    owner: Owner,
    name: str,
    base: BaseModel,
    config: StoredFile,
    weights: StoredFile,
) -> tuple[VersionView, bool]:
    """The version that these bytes are, and whether it is new.

    Makes the adapter when it is missing, counts the blobs as stored and asks for validation.
    Identical bytes are the version that exists, whatever became of it (what the platform failed to
    check is checked again). Raises OtherBase, TooManyAdapters, and for what was on its
    way UploadsOff when uploads were switched off, TenantGoing when the tenant was deleted.
    """
    await refuse_if_uploads_are_off(session)
    rows = VersionRepository(session)
    adapter = await rows.lock_adapter(owner.tenant_id, name, base)
    # After a row that refers to the tenant's may have been written: a deletion waits for it to end.
    await refuse_if_going(session, owner.tenant_id)
    if adapter.base_model_id != base.id:
        raise OtherBase(name, base.name)
    if adapter.last_number == 0:
        await adapter_limit.check(session, owner.tenant_id)
    await quota.record(
        session,
        owner.tenant_id,
        {config.digest: config.size_bytes, weights.digest: weights.size_bytes},
    )
    base_digest = Digest(base.digest)
    digest = adapter_digest(base_digest, config.digest, weights.digest)
    version = await rows.identical(adapter, digest)
    is_new = version is None
    if version is None:
        version = AdapterVersion(
            tenant_id=owner.tenant_id,
            adapter_id=adapter.id,
            number=await rows.next_number(adapter),
            digest=digest,
            base_digest=base_digest,
            config_digest=config.digest,
            weights_digest=weights.digest,
            size_bytes=config.size_bytes + weights.size_bytes,
            deadline_at=datetime.now(UTC) + timedelta(seconds=lifecycle.QUEUE_SECONDS),
        )
        session.add(version)
        await session.flush()
        await lifecycle.ask(session, version)
        data = {"adapter": name, "version": version.number, "digest": digest}
        await emit(session, owner.tenant_id, EventType.VERSION_UPLOADED, data)
    else:
        await lifecycle.reopen(session, version)
    return VersionView.of(version, owner.tenant_name, name), is_new
