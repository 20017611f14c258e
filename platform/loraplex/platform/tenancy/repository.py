"""The functions in Postgres through which a gateway turns a secret's hash into a principal.

They belong to role `system`; `app` may only execute them (see migration 0001).
"""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import ARRAY, LargeBinary, RowMapping, bindparam, text
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.tenancy.errors import TenantSuspended
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import TenantState
from loraplex.platform.tenancy.principals import (
    SCOPES_OF,
    OperatorPrincipal,
    OperatorRole,
    Principal,
    Role,
    TenantPrincipal,
)

HASHES = bindparam("hashes", type_=ARRAY(LargeBinary))

FIND_KEY = text("SELECT * FROM gateway.find_key(:hashes)").bindparams(HASHES)
FIND_SESSION = text("SELECT * FROM gateway.find_session(:hashes)").bindparams(HASHES)
OPEN_SESSION = text(
    "SELECT * FROM gateway.open_session(:hashes, :token_hash, :lifetime)"
).bindparams(HASHES)
CLOSE_SESSION = text("SELECT gateway.close_session(:hashes)").bindparams(HASHES)


async def find_key(session: AsyncSession, hashes: Sequence[bytes]) -> Principal | None:
    """Whose live key has one of these hashes; raises TenantSuspended."""
    found = await session.execute(FIND_KEY, {"hashes": hashes})
    return _principal(found.mappings().one_or_none())


async def find_session(session: AsyncSession, hashes: Sequence[bytes]) -> Principal | None:
    """Whose live web session has one of these token hashes; raises TenantSuspended."""
    found = await session.execute(FIND_SESSION, {"hashes": hashes})
    return _principal(found.mappings().one_or_none())


async def open_session(
    session: AsyncSession, hashes: Sequence[bytes], token_hash: bytes, lifetime: timedelta
) -> Principal | None:
    """Open a web session for the key with one of these hashes; it ends with the key at the latest.

    None, and no session, when there is no such live key; raises TenantSuspended.
    """
    opened = await session.execute(
        OPEN_SESSION, {"hashes": hashes, "token_hash": token_hash, "lifetime": lifetime}
    )
    return _principal(opened.mappings().one_or_none())


async def close_session(session: AsyncSession, hashes: Sequence[bytes]) -> None:
    """End the web session with one of these token hashes; nothing happens when there is none."""
    await session.execute(CLOSE_SESSION, {"hashes": hashes})


def _principal(row: RowMapping | None) -> Principal | None:
    if row is None:
        return None
    if row["kind"] == "operator":
        return OperatorPrincipal(
            key_id=row["key_id"], user_id=None, name=row["key_name"], role=OperatorRole.ADMIN
        )
    if row["tenant_state"] != TenantState.ACTIVE:
        raise TenantSuspended(row["tenant_name"])
    return TenantPrincipal(
        tenant_id=TenantId(row["tenant_id"]),
        tenant_name=row["tenant_name"],
        namespace=TenantNamespace(row["namespace"]),
        key_id=row["key_id"],
        member_id=None,
        role=Role.OWNER,
        scopes=SCOPES_OF[Role.OWNER],
        models=None,
        label=row["key_name"],
        max_concurrent_requests=row["max_concurrent_requests"],
    )
