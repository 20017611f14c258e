"""Tells workers of the version that calls will mean from now on, before the first of them comes."""

from loraplex.adapters_registry.errors import ModelNotFound
from loraplex.adapters_registry.versions.names import canonical_name
from loraplex.api.services import Services
from loraplex.platform.tenancy.principals import TenantPrincipal


async def foretell(
    services: Services, principal: TenantPrincipal, adapter: str, version: int
) -> None:
    """Have all workers of the base bring a version near; nothing where it cannot be called."""
    model = canonical_name(principal.tenant_name, adapter, version)
    async with services.database.unit_of_work(principal.tenant_id) as session:
        try:
            resolved = await services.catalogue.resolve(session, principal, model)
        except ModelNotFound:  # it was deleted or quarantined since
            return
    services.adapter_refs.foretell(principal, resolved, everywhere=True)
