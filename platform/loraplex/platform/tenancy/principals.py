"""Who a credential proves to be, and what that one may do."""

from dataclasses import dataclass
from uuid import UUID

from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.scopes import SCOPES_OF, OperatorRole, Role, Scope

__all__ = [
    "SCOPES_OF",
    "OperatorPrincipal",
    "OperatorRole",
    "Principal",
    "Role",
    "Scope",
    "TenantPrincipal",
]


@dataclass(frozen=True, slots=True)
class TenantPrincipal:
    """A tenant, through one of its keys or one of its people."""

    tenant_id: TenantId
    tenant_name: str
    namespace: TenantNamespace
    key_id: UUID | None
    """None: a person's session."""
    member_id: UUID | None
    """None: a key without a member."""
    role: Role
    scopes: frozenset[Scope]
    """Never more than the role's."""
    models: frozenset[str] | None
    """The names it may call; None is every one of the tenant's."""
    label: str
    """What may be shown of the credential, or the person's name."""

    def may_call(self, name: str) -> bool:
        """Whether a base or one of the tenant's adapters, by its bare name, may be called."""
        return self.models is None or name in self.models


@dataclass(frozen=True, slots=True)
class OperatorPrincipal:
    """One of the platform's own staff. Belongs to no tenant, so it cannot call models."""

    key_id: UUID | None
    """None: a person's session."""
    user_id: UUID | None
    """None: a key without a user."""
    name: str
    role: OperatorRole


Principal = TenantPrincipal | OperatorPrincipal
