"""The functions in Postgres through which a gateway learns whose a secret's hash is.

They belong to role `system`; `app` may only execute them (see migrations 0001 and 0014).
"""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy import ARRAY, LargeBinary, Result, Uuid, bindparam, text
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.tenancy.credentials import Credential

HASHES = bindparam("hashes", type_=ARRAY(LargeBinary))

FIND_KEY = text("SELECT * FROM gateway.find_key_credential(:hashes)").bindparams(HASHES)
FIND_SESSION = text("SELECT * FROM gateway.find_session_credential(:hashes)").bindparams(HASHES)
OPEN_SESSION = text(
    "SELECT * FROM gateway.open_key_session(:hashes, :token_hash, :lifetime)"
).bindparams(HASHES)
CLOSE_SESSION = text("SELECT gateway.close_session(:hashes)").bindparams(HASHES)
# When a key was used may be lost in a crash, so nobody waits for the disk.
RECORD_USES = text(
    "SELECT set_config('synchronous_commit', 'off', true),"
    " gateway.record_key_uses(:keys, :precision)"
).bindparams(bindparam("keys", type_=ARRAY(Uuid)))


async def find_key(session: AsyncSession, hashes: Sequence[bytes]) -> Credential | None:
    """The key that has one of these hashes, whatever its state."""
    return _credential(await session.execute(FIND_KEY, {"hashes": hashes}))


async def find_session(session: AsyncSession, hashes: Sequence[bytes]) -> Credential | None:
    """The web session, opened with a key, whose token has one of these hashes."""
    return _credential(await session.execute(FIND_SESSION, {"hashes": hashes}))


async def open_session(
    session: AsyncSession, hashes: Sequence[bytes], token_hash: bytes, lifetime: timedelta
) -> Credential | None:
    """Open a web session for the key with one of these hashes; it ends with the key at the latest.

    Of a key that is not live there is none, whatever this returns.
    """
    values = {"hashes": hashes, "token_hash": token_hash, "lifetime": lifetime}
    return _credential(await session.execute(OPEN_SESSION, values))


async def close_session(session: AsyncSession, hashes: Sequence[bytes]) -> None:
    """End the web session with one of these token hashes; nothing happens when there is none."""
    await session.execute(CLOSE_SESSION, {"hashes": hashes})


async def record_key_uses(
    session: AsyncSession, keys: Sequence[UUID], precision: timedelta
) -> None:
    """These keys were used just now; what was written less than `precision` ago stays."""
    await session.execute(RECORD_USES, {"keys": keys, "precision": precision})


def _credential(found: Result[tuple[object, ...]]) -> Credential | None:
    row = found.mappings().one_or_none()
    return None if row is None else Credential.of(row)
