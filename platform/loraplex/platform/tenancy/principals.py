"""Who a credential proves to be."""

from dataclasses import dataclass
from uuid import UUID

from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.tenancy.identity import TenantId


@dataclass(frozen=True, slots=True)
class TenantPrincipal:
    """A tenant, through one of its keys (or a web session opened with it)."""

    tenant_id: TenantId
    tenant_name: str
    namespace: TenantNamespace
    key_id: UUID
    max_concurrent_requests: int


@dataclass(frozen=True, slots=True)
class OperatorPrincipal:
    """One of the platform's own staff. Belongs to no tenant, so it cannot call models."""

    key_id: UUID
    name: str


Principal = TenantPrincipal | OperatorPrincipal
