"""The grammar of tenants' names: what `<tenant>/<adapter>` can hold without doubt."""

import re

from loraplex.platform.tenancy.errors import InvalidTenantName

TENANT_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def check_tenant_name(name: str) -> str:
    """The name itself; raises InvalidTenantName."""
    if TENANT_NAME.fullmatch(name) is None:
        raise InvalidTenantName(name[:64])
    return name
