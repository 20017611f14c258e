"""Principals for what the platform itself or an operator does in a tenant's name."""

from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.tenancy.principals import SCOPES_OF, Role, TenantPrincipal


def acting_for(tenant: Tenant, role: Role, label: str) -> TenantPrincipal:
    """The tenant, as a member of this role would be, without a key; `label` says who acts."""
    return TenantPrincipal(
        tenant_id=TenantId(tenant.id),
        tenant_name=tenant.name,
        namespace=TenantNamespace(tenant.namespace),
        key_id=None,
        member_id=None,
        role=role,
        scopes=SCOPES_OF[role],
        models=None,
        label=label,
    )
