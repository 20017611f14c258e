"""What can be switched."""

import re

from loraplex.platform.switches.errors import UnknownSwitch

READ_ONLY = "read_only"
"""Tenants change nothing: management requests other than GET are refused."""
NO_UPLOADS = "no_uploads"
"""Nothing comes in, by any way, and nothing that came in becomes callable."""
FIXED = (READ_ONLY, NO_UPLOADS)
DRAIN_POOL = "drain_pool:"
"""Before a pool's name: no new request goes to its workers."""
POOL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def draining(pool: str) -> str:
    """The switch that drains this pool; raises UnknownSwitch for what can name none."""
    return check_name(DRAIN_POOL + pool)


def check_name(name: str) -> str:
    """The name of a switch as it is, or UnknownSwitch."""
    is_pools = name.startswith(DRAIN_POOL) and POOL_NAME.fullmatch(name.removeprefix(DRAIN_POOL))
    if name not in FIXED and not is_pools:
        raise UnknownSwitch(name)
    return name
