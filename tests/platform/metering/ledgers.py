"""Tenants with made-up ledgers."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId

ACTOR = Actor.system("test")
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Customer:
    tenant_id: TenantId
    name: str
    key_ids: tuple[UUID, ...]


async def new_customer(system: Database, keys: int = 1) -> Customer:
    administration = TenantAdministration(SecretKeys(["k" * 32]))
    async with system.unit_of_work() as session:
        tenant = await administration.create_tenant(session, f"t-{uuid4().hex}")
        made = [await administration.create_key(session, tenant, "ci") for _ in range(keys)]
    return Customer(TenantId(tenant.id), tenant.name, tuple(key.id for key, _ in made))


def entry(customer: Customer, settled_at: datetime, **changes: object) -> LedgerEntry:
    """One settled request: 10 prompt tokens of which 4 cached, 5 output tokens, 7 micros."""
    values: dict[str, object] = {
        "request_id": f"chatcmpl-{uuid4().hex}",
        "api_key_id": customer.key_ids[0],
        "model": "base",
        "base_model": "base",
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "output_tokens": 5,
        "cost_micros": 7,
        "outcome": "completed",
        "admitted_at": settled_at - timedelta(seconds=1),
        "created_at": settled_at,
    }
    return LedgerEntry(tenant_id=customer.tenant_id, **(values | changes))


def scattered(
    customer: Customer, rows: int, seed: int, *, days: int = 3, start: datetime = MIDNIGHT
) -> list[LedgerEntry]:
    """Requests of several keys, members, adapters and versions, over some days."""
    dice = random.Random(seed)
    adapters = [uuid4() for _ in range(3)]
    members: Sequence[UUID | None] = [None, uuid4(), uuid4()]
    made = []
    for _ in range(rows):
        prompt = dice.randrange(500)
        adapter_id = dice.choice([None, *adapters])
        made.append(
            entry(
                customer,
                start + timedelta(microseconds=dice.randrange(days * 86_400_000_000)),
                api_key_id=dice.choice(customer.key_ids),
                member_id=dice.choice(members),
                base_model=dice.choice(["base", "other", None]),
                adapter_id=adapter_id,
                adapter_version=None if adapter_id is None else dice.randrange(1, 3),
                prompt_tokens=prompt,
                cached_tokens=dice.randrange(prompt + 1),
                output_tokens=dice.randrange(500),
                cost_micros=dice.randrange(10**6),
            )
        )
    return made


async def write(session: AsyncSession, entries: Sequence[LedgerEntry]) -> None:
    session.add_all(entries)
    await session.flush()
