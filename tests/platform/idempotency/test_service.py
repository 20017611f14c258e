import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import func, select, update

from loraplex.platform.database.sessions import Database
from loraplex.platform.idempotency.errors import (
    IdempotencyKeyReused,
    IdempotentRequestUnderWay,
    InvalidIdempotencyKey,
)
from loraplex.platform.idempotency.models import IdempotencyKey
from loraplex.platform.idempotency.service import (
    Idempotency,
    KeyClaim,
    StoredAnswer,
    check_key,
)
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId

ANSWER = StoredAnswer(201, {"location": "/api/v1/webhooks/1"}, b'{"secret": "whsec_x"}')


@pytest.fixture
def idempotency(database: Database, services: Settings) -> Idempotency:
    return Idempotency(database, SecretKeys.from_settings(services))


async def new_tenant(system: Database, services: Settings) -> TenantId:
    administration = TenantAdministration(SecretKeys.from_settings(services))
    async with system.unit_of_work() as session:
        return TenantId((await administration.create_tenant(session, f"t-{uuid4().hex}")).id)


@pytest.fixture
async def tenant_id(system_database: Database, services: Settings) -> TenantId:
    return await new_tenant(system_database, services)


async def begun(idempotency: Idempotency, tenant_id: TenantId, request: bytes = b"r") -> KeyClaim:
    claim = await idempotency.claim(tenant_id, "k", request)
    assert isinstance(claim, KeyClaim)
    return claim


async def let_pass(system: Database, tenant_id: TenantId, **times: object) -> None:
    async with system.unit_of_work() as session:
        mine = IdempotencyKey.tenant_id == tenant_id
        await session.execute(update(IdempotencyKey).where(mine).values(**times))


async def test_the_same_request_gets_the_answer_of_the_first(
    idempotency: Idempotency, tenant_id: TenantId
) -> None:
    claim = await begun(idempotency, tenant_id)
    with pytest.raises(IdempotentRequestUnderWay) as under_way:
        await idempotency.claim(tenant_id, "k", b"r")
    assert under_way.value.retry_after_seconds == 1
    await idempotency.keep(claim, ANSWER)
    assert await idempotency.claim(tenant_id, "k", b"r") == ANSWER


async def test_another_request_with_the_key_is_refused_before_and_after_the_answer(
    idempotency: Idempotency, tenant_id: TenantId
) -> None:
    claim = await begun(idempotency, tenant_id)
    with pytest.raises(IdempotencyKeyReused):
        await idempotency.claim(tenant_id, "k", b"other")
    await idempotency.keep(claim, ANSWER)
    with pytest.raises(IdempotencyKeyReused):
        await idempotency.claim(tenant_id, "k", b"other")


async def test_a_key_given_back_may_be_used_for_any_request(
    idempotency: Idempotency, tenant_id: TenantId
) -> None:
    await idempotency.release(await begun(idempotency, tenant_id))
    await begun(idempotency, tenant_id, b"other")


async def test_of_many_at_once_one_does_it(idempotency: Idempotency, tenant_id: TenantId) -> None:
    found = await asyncio.gather(
        *(idempotency.claim(tenant_id, "k", b"r") for _ in range(12)), return_exceptions=True
    )
    assert sum(isinstance(one, KeyClaim) for one in found) == 1
    assert sum(isinstance(one, IdempotentRequestUnderWay) for one in found) == 11


async def test_what_a_dead_process_began_can_be_begun_again_and_not_ended_twice(
    idempotency: Idempotency, system_database: Database, tenant_id: TenantId
) -> None:
    first = await begun(idempotency, tenant_id)
    assert await idempotency.renew(first)
    await let_pass(system_database, tenant_id, locked_until=func.now() - timedelta(seconds=1))
    with pytest.raises(IdempotencyKeyReused):
        await idempotency.claim(tenant_id, "k", b"other")
    second = await begun(idempotency, tenant_id)
    # The first was not dead, only slow: its claim is gone, and its answer does not count.
    assert not await idempotency.renew(first)
    await idempotency.keep(first, StoredAnswer(500, {}, b"late"))
    await idempotency.release(first)
    await idempotency.keep(second, ANSWER)
    assert await idempotency.claim(tenant_id, "k", b"r") == ANSWER


async def test_after_a_day_the_key_is_new(
    idempotency: Idempotency, system_database: Database, tenant_id: TenantId
) -> None:
    await idempotency.keep(await begun(idempotency, tenant_id), ANSWER)
    await let_pass(system_database, tenant_id, expires_at=func.now() - timedelta(seconds=1))
    await begun(idempotency, tenant_id, b"other")


async def test_a_neighbours_key_is_another_key(
    idempotency: Idempotency, system_database: Database, services: Settings, tenant_id: TenantId
) -> None:
    await idempotency.keep(await begun(idempotency, tenant_id), ANSWER)
    await begun(idempotency, await new_tenant(system_database, services), b"other")


async def test_neither_the_answer_nor_the_request_lies_there_in_clear(
    idempotency: Idempotency, system_database: Database, tenant_id: TenantId
) -> None:
    await idempotency.keep(await begun(idempotency, tenant_id, b"hf_token"), ANSWER)
    async with system_database.unit_of_work() as session:
        row = await session.scalar(
            select(IdempotencyKey).where(IdempotencyKey.tenant_id == tenant_id)
        )
    assert row is not None
    assert row.sealed_body is not None
    assert b"whsec" not in row.sealed_body
    assert b"hf_token" not in row.fingerprint


async def test_a_new_secret_key_in_front_keeps_what_was_kept_under_the_old(
    database: Database, tenant_id: TenantId
) -> None:
    old = Idempotency(database, SecretKeys(["o" * 32]))
    await old.keep(await begun(old, tenant_id), ANSWER)
    rotated = Idempotency(database, SecretKeys(["n" * 32, "o" * 32]))
    assert await rotated.claim(tenant_id, "k", b"r") == ANSWER


@pytest.mark.parametrize("key", ["", "x" * 256, "two words", "é", "a\tb", "\x7f"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidIdempotencyKey):
        check_key(key)


def test_255_characters_are_a_key() -> None:
    assert check_key("x" * 255) == "x" * 255
