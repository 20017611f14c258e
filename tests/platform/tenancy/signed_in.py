"""A tenant's principal, as a key of an owner proves it."""

from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.key_views import ApiKeyView
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.tenancy.principals import SCOPES_OF, Role, TenantPrincipal


def through_key(tenant: Tenant, key: ApiKeyView) -> TenantPrincipal:
    """Of no member, and not restricted."""
    return TenantPrincipal(
        tenant_id=TenantId(tenant.id),
        tenant_name=tenant.name,
        namespace=TenantNamespace(tenant.namespace),
        key_id=key.id,
        member_id=None,
        role=Role.OWNER,
        scopes=SCOPES_OF[Role.OWNER],
        models=None,
        label=key.label,
    )
