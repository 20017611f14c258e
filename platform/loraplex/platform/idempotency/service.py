"""Claims a key before its request is done, and keeps the answer for whoever sends it again.

The claim is committed before the work begins, and renewed while it lasts. A process that dies
leaves a claim that lapses within half a minute; the next request with the key then does the work
(again, if it was done and only its answer lost, so what a request makes should also be recognised
by what it is: the same bytes are the same version).
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, delete, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.database.sessions import Database
from loraplex.platform.idempotency.errors import (
    MAX_KEY_CHARACTERS,
    IdempotencyKeyReused,
    IdempotentAnswerNotKept,
    IdempotentRequestUnderWay,
    InvalidIdempotencyKey,
)
from loraplex.platform.idempotency.models import IdempotencyKey
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.identity import TenantId

PURPOSE = "idempotency"
LEASE = timedelta(seconds=30)
RENEW_SECONDS = 10.0
KEPT = timedelta(hours=24)
RETRY_AFTER_SECONDS = 1
MAX_BODY_BYTES = 1024 * 1024
"""Of a larger answer only that there was one is kept: some 4,000 events of a stream."""


@dataclass(frozen=True)
class StoredAnswer:
    """What the first request was answered; None is a body too large to be kept."""

    status_code: int
    headers: Mapping[str, str]
    body: bytes | None


@dataclass(frozen=True)
class KeyClaim:
    """The right, and the duty, to do the request and to end with `keep` or `release`."""

    tenant_id: TenantId
    key: str
    claim: UUID


def check_key(key: str) -> str:
    """The key itself; raises InvalidIdempotencyKey."""
    is_visible = key.isascii() and key.isprintable() and " " not in key
    if not key or len(key) > MAX_KEY_CHARACTERS or not is_visible:
        raise InvalidIdempotencyKey
    return key


class Idempotency:
    """Keys and answers of all tenants, on role `app`."""

    def __init__(self, database: Database, secrets: SecretKeys) -> None:
        self._database = database
        self._secrets = secrets

    async def claim(self, tenant_id: TenantId, key: str, request: bytes) -> KeyClaim | StoredAnswer:
        """Begin the request, or answer what it was answered before.

        `request` stands for all that makes it the same request. Raises IdempotencyKeyReused where
        it differs, IdempotentRequestUnderWay and IdempotentAnswerNotKept.
        """
        wanted = KeyClaim(tenant_id, key, uuid4())
        digest = hashlib.sha256(request).digest()
        async with self._database.unit_of_work(tenant_id) as session:
            if await self._insert(session, wanted, digest):
                return wanted
            found = await session.scalar(
                select(IdempotencyKey).where(*_row(wanted)).with_for_update()
            )
            now = await session.scalar(select(func.clock_timestamp()))
            assert now is not None
            if found is None:  # released a moment ago
                raise IdempotentRequestUnderWay(RETRY_AFTER_SECONDS)
            if found.expires_at > now:
                if not self._secrets.verify(PURPOSE, digest, found.fingerprint):
                    raise IdempotencyKeyReused
                if found.status_code is not None:
                    return await self._answer(found)
                if found.locked_until > now:
                    raise IdempotentRequestUnderWay(RETRY_AFTER_SECONDS)
            await session.delete(found)
            await session.flush()
            assert await self._insert(session, wanted, digest), "its lock is held"
            return wanted

    async def renew(self, held: KeyClaim) -> bool:
        """Move the lease on; False when somebody else has the key."""
        statement = (
            update(IdempotencyKey)
            .where(*_mine(held))
            .values(locked_until=func.clock_timestamp() + literal(LEASE))
            .returning(IdempotencyKey.key)
        )
        async with self._database.unit_of_work(held.tenant_id) as session:
            return await session.scalar(statement) is not None

    async def keep(self, held: KeyClaim, answer: StoredAnswer) -> None:
        """End the request with its answer; does nothing when the claim was lost."""
        sealed = None
        if answer.body is not None:
            sealed = await asyncio.to_thread(self._secrets.encrypt, PURPOSE, answer.body)
        statement = (
            update(IdempotencyKey)
            .where(*_mine(held))
            .values(
                status_code=answer.status_code, headers=dict(answer.headers), sealed_body=sealed
            )
        )
        async with self._database.unit_of_work(held.tenant_id) as session:
            await session.execute(statement)

    async def release(self, held: KeyClaim) -> None:
        """End the request as if it had never come: the key may be used for any."""
        async with self._database.unit_of_work(held.tenant_id) as session:
            await session.execute(delete(IdempotencyKey).where(*_mine(held)))

    async def _insert(self, session: AsyncSession, wanted: KeyClaim, digest: bytes) -> bool:
        statement = (
            insert(IdempotencyKey)
            .values(
                tenant_id=wanted.tenant_id,
                key=wanted.key,
                fingerprint=self._secrets.mac(PURPOSE, digest),
                claim=wanted.claim,
                locked_until=func.clock_timestamp() + literal(LEASE),
                expires_at=func.clock_timestamp() + literal(KEPT),
            )
            .on_conflict_do_nothing(index_elements=[IdempotencyKey.tenant_id, IdempotencyKey.key])
            .returning(IdempotencyKey.key)
        )
        return await session.scalar(statement) is not None

    async def _answer(self, row: IdempotencyKey) -> StoredAnswer:
        assert row.status_code is not None, "the first request has ended"
        if row.sealed_body is None:
            raise IdempotentAnswerNotKept(MAX_BODY_BYTES)
        headers = {name: str(value) for name, value in (row.headers or {}).items()}
        body = await asyncio.to_thread(self._secrets.decrypt, PURPOSE, row.sealed_body)
        return StoredAnswer(row.status_code, headers, body)


def _row(held: KeyClaim) -> tuple[ColumnElement[bool], ...]:
    return (IdempotencyKey.tenant_id == held.tenant_id, IdempotencyKey.key == held.key)


def _mine(held: KeyClaim) -> tuple[ColumnElement[bool], ...]:
    return (*_row(held), IdempotencyKey.claim == held.claim, IdempotencyKey.status_code.is_(None))
