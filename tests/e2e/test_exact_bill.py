"""Every request is billed once and exactly, whatever dies while it runs."""

import asyncio
import json
import logging
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import func, select, update

from loraplex.adapters_registry.versions.service import register_base
from loraplex.engine.protocol.describe import load_or_describe
from loraplex.platform.admission.models import Limits, Reservation, Subject
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.checks import check_recent
from loraplex.platform.metering.models import LedgerEntry, PriceRow
from loraplex.platform.metering.rollups import add_arrivals
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.models import Tenant
from tests.api.conftest import in_system, new_tenant
from tests.e2e.chaos.checking import Evidence, read_journals
from tests.e2e.chaos.clients import Client, Seen, plan
from tests.e2e.chaos.fragile import FragilePlatform
from tests.e2e.chaos.storm import Storm
from tests.soak import examples

log = logging.getLogger(__name__)

REQUESTS = examples(300, 10_000)
GATEWAYS = examples(2, 3)
AT_ONCE = 12
AWAY = "database_unavailable"
"""What was turned away so was not admitted, as far as anybody knows, and comes again."""
RETRY_SECONDS = 0.3
SEED = int(os.environ.get("LORAPLEX_CHAOS_SEED", "5"))
SETTLED_SECONDS = 120.0
"""Lease, pause and deadline of what nobody knows, and a machine that is busy."""


@pytest.fixture
def fragile(services: Settings, smollm2_dir: Path, tmp_path: Path) -> Iterator[FragilePlatform]:
    platform = FragilePlatform(services, smollm2_dir, tmp_path, GATEWAYS)
    try:
        table = load_or_describe(smollm2_dir, None, tmp_path)
        asyncio.run(in_system(platform.settings, lambda session: register_base(session, table)))
        platform.start()
        yield platform
    finally:
        platform.stop()


async def send_all(platform: FragilePlatform, key: str, storm: Storm) -> list[Seen]:
    """All planned requests, some at once, while the storm goes on."""
    randomness = random.Random(SEED)
    planned = iter([plan(platform.base_name, number, randomness) for number in range(REQUESTS)])
    client = Client(key)
    seen: list[Seen] = []

    async def send_one_after_another() -> None:
        for one in planned:
            await storm.reached(one.number)
            while True:
                answer = await client.send(storm.living(one.gateway).url, one)
                seen.append(answer)
                if answer.error != AWAY:
                    break
                await asyncio.sleep(RETRY_SECONDS)

    try:
        await asyncio.gather(*(send_one_after_another() for _ in range(AT_ONCE)))
    finally:
        await client.close()
    return seen


@dataclass(frozen=True)
class Aftermath:
    """What clients have seen, the ledger once all is settled, and what does not hold."""

    seen: list[Seen]
    rows: list[LedgerEntry]
    violations: dict[str, int]
    storm: Storm


async def run(platform: FragilePlatform, key: str) -> Aftermath:
    """All on one loop: Postgres ends with the thread that started it, one of this loop's."""
    storm = Storm(platform, REQUESTS, random.Random(SEED))
    raging = asyncio.create_task(storm.rage())
    try:
        seen = await send_all(platform, key, storm)
        await raging
    finally:
        raging.cancel()
        await asyncio.gather(raging, return_exceptions=True)
    await until_settled(platform)
    rows: list[LedgerEntry] = await in_system(platform.settings, ledger)
    return Aftermath(seen, rows, await invariants(platform), storm)


async def ledger(session: Any) -> list[LedgerEntry]:
    return list(await session.scalars(select(LedgerEntry)))


async def reservations(session: Any) -> int:
    count = await session.scalar(select(func.count()).select_from(Reservation))
    return int(count)


async def make_dear(session: Any, tenant_name: str, base_name: str) -> None:
    """Price the model's tokens, and give the tenant a budget that is never used up."""
    session.add(
        PriceRow(
            base_model=base_name,
            input_micros_per_million=3_000_000,
            cached_input_micros_per_million=1_000_000,
            output_micros_per_million=7_000_000,
            currency="USD",
            effective_from=func.now(),
        )
    )
    mine = select(Tenant.id).where(Tenant.name == tenant_name).scalar_subquery()
    await session.execute(
        update(Limits)
        .where(Limits.tenant_id == mine, Limits.subject == Subject.TENANT)
        .values(daily_budget_micros=10**12, monthly_budget_micros=10**12)
    )


async def invariants(platform: FragilePlatform) -> dict[str, int]:
    """How often each does not hold, with all roll-ups made."""
    assert platform.settings.database_system_url is not None
    system = Database(platform.settings.database_system_url.get_secret_value(), pool_size=1)
    try:
        async with system.unit_of_work() as session:
            while await add_arrivals(session, datetime(2020, 1, 1, tzinfo=UTC)):
                pass
        return {one.invariant: one.count for one in await check_recent(system, 35)}
    finally:
        await system.dispose()


async def until_settled(platform: FragilePlatform) -> None:
    deadline = monotonic() + SETTLED_SECONDS
    while left := await in_system(platform.settings, reservations):
        assert monotonic() < deadline, f"{left} reservations are left; {platform.logs()}"
        await asyncio.sleep(0.2)


@pytest.mark.timeout(900)
def test_every_request_is_billed_once_and_exactly_whatever_dies(fragile: FragilePlatform) -> None:
    tenant = new_tenant(fragile.settings, max_concurrent_requests=1000)
    dear = partial(make_dear, tenant_name=tenant.name, base_name=fragile.base_name)
    asyncio.run(in_system(fragile.settings, dear))
    began = monotonic()
    after = asyncio.run(run(fragile, tenant.key))
    seen, rows = after.seen, after.rows
    evidence = Evidence(seen, rows, read_journals(fragile.journals), fragile.worker_ends())
    problems = evidence.problems()
    figures = {
        "seed": SEED,
        "requests": len(seen),
        "seconds": round(monotonic() - began, 1),
        "storm": after.storm.done,
        "clients": Counter(one.error or str(one.status) for one in seen),
        "ledger": Counter(f"{row.settled_by} {row.outcome} {row.error_code}" for row in rows),
    }
    log.info("%s", json.dumps(figures))
    assert not problems, "\n".join(
        [f"run again with LORAPLEX_CHAOS_SEED={SEED}; {figures}", *problems[:20]]
    )
    assert set(after.violations.values()) == {0}, after.violations
    assert sum(row.cost_micros for row in rows) > 0
    assert after.storm.late == [], "gateways that were told to end took longer than their grace"
    assert any(row.settled_by == "recovery" for row in rows), "nothing was recovered"
