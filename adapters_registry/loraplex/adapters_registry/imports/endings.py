"""What is said and kept of an import that has ended, whoever ended it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.imports.models import AdapterImport, ImportStatus
from loraplex.engine.protocol.errors import DomainError
from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit

MAX_ERROR_CHARACTERS = 1000
OURSELVES = Actor.system("imports")


@dataclass(frozen=True)
class EndedImport:
    """Which one."""

    tenant_id: TenantId
    import_id: UUID
    adapter_name: str

    @classmethod
    def of(cls, row: AdapterImport) -> "EndedImport":
        return cls(TenantId(row.tenant_id), row.id, row.adapter_name)


async def tell(
    session: AsyncSession, one: EndedImport, event: EventType, outcome: Mapping[str, object]
) -> None:
    """Emit the event, and note it in the audit log; who began it is in the line of its start."""
    target = Target("import", one.import_id)
    await record(session, OURSELVES, event, tenant_id=one.tenant_id, target=target, after=outcome)
    data = {"import_id": str(one.import_id), "adapter": one.adapter_name, **outcome}
    await emit(session, one.tenant_id, event, data)


def failed(error: DomainError) -> dict[str, Any]:
    told = {"code": error.code, "message": error.message, "field": error.field}
    last_error = error.message[:MAX_ERROR_CHARACTERS]
    return {"status": ImportStatus.FAILED, "error": told, "last_error": last_error} | ended()


def ended() -> dict[str, Any]:
    return {"sealed_source": None, "ended_at": func.now()}
