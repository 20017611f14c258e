"""How long usage takes to answer from a ledger of a million rows.

    python -m tests.benchmarks.usage_query [--rows 1000000] [--tail 10000]

Embedded Postgres with its own settings; a ledger of one tenant over 31 days, made by SQL: 8 keys, 4
members, 2 base models, 50 adapters of 2 versions. All but the tail is in the roll-ups, as after a
stall of the job. Each question is asked as the API asks it, in a transaction of role `app`; the
figure is the median of nine, after one that nobody counts.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import text

from loraplex.engine.benchmarks.scripts import print_line
from loraplex.platform.database.migrate import upgrade
from loraplex.platform.database.roles import APP, MIGRATOR, ROLES, SYSTEM, create_roles
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.private_files import new_secret
from loraplex.platform.embedded.processes import running
from loraplex.platform.metering.buckets import BucketWidth
from loraplex.platform.metering.rollups import rebuild
from loraplex.platform.metering.usage import Group, UsageFilter, UsageQuery, stored, used
from loraplex.platform.tenancy.identity import TenantId
from tests.platform.metering.ledgers import MIDNIGHT, new_customer

DAYS = 31
EVER = datetime(2000, 1, 1, tzinfo=UTC)
QUESTIONS: dict[tuple[BucketWidth, tuple[Group, ...]], int | None] = {
    (BucketWidth.DAY, ()): 200,
    (BucketWidth.DAY, (Group.MODEL,)): 200,
    (BucketWidth.DAY, (Group.KEY, Group.VERSION)): None,
    (BucketWidth.HOUR, ()): None,
    (BucketWidth.MINUTE, ()): None,
}
"""What is asked of the last buckets, as many as a page has, with its goal in milliseconds."""
FILL = text(
    """
    INSERT INTO ledger (
        tenant_id, request_id, api_key_id, member_id, model, base_model, adapter_id,
        adapter_version, prompt_tokens, cached_tokens, output_tokens, cost_micros, outcome,
        admitted_at, created_at)
    SELECT :tenant, 'chatcmpl-' || n, (CAST(:keys AS uuid[]))[1 + n % 8],
        CASE WHEN n % 5 > 0 THEN md5((n % 4)::text)::uuid END, 'm', 'base-' || n % 2,
        CASE WHEN n % 3 > 0 THEN md5('a' || (n * 7919) % 50)::uuid END,
        CASE WHEN n % 3 > 0 THEN 1 + n % 2 END,
        100 + n % 900, n % 100, 10 + n % 300, n % 1000, 'completed', at, at
    FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) n
    CROSS JOIN LATERAL (SELECT :start + n * interval '2678400 s' / CAST(:rows AS bigint)) m (at)
    """
)


async def measure(urls: dict[str, str], rows: int, tail: int) -> None:
    app, system = Database(urls[APP]), Database(urls[SYSTEM])
    customer = await new_customer(system, keys=8)
    values = {
        "tenant": customer.tenant_id,
        "keys": list(customer.key_ids),
        "start": MIDNIGHT,
        "rows": rows,
    }
    began = time.perf_counter()
    for first, last in ((0, rows - tail - 1), (rows - tail, rows - 1)):
        async with system.unit_of_work() as session:
            await session.execute(FILL, values | {"first": first, "last": last})
        if first == 0:
            print_line("made", rows=rows - tail, seconds=time.perf_counter() - began)
            await roll_up(system, customer.tenant_id)
    for (width, groups), goal_ms in QUESTIONS.items():
        median_ms, answered = await ask(app, customer.tenant_id, groups, width)
        print_line(
            "usage_query",
            bucket_width=width,
            group_by=groups,
            median_ms=median_ms,
            answered_rows=answered,
            goal_ms=goal_ms,
        )
    await app.dispose()
    await system.dispose()


async def roll_up(system: Database, tenant_id: TenantId) -> None:
    began = time.perf_counter()
    await rebuild(system, tenant_id, EVER)
    print_line("rebuilt", seconds=time.perf_counter() - began)


async def ask(
    app: Database, tenant_id: TenantId, groups: tuple[Group, ...], width: BucketWidth
) -> tuple[float, int]:
    """The median in milliseconds, and how many rows the answer has."""
    end = MIDNIGHT + timedelta(days=DAYS)
    query = UsageQuery(
        start=end - width.max_buckets * width.length,
        end=end,
        width=width,
        wanted=UsageFilter(tenant_ids=[tenant_id]),
        minutes_from=EVER,
        groups=groups,
    )
    times = []
    for _ in range(10):
        began = time.perf_counter()
        async with app.unit_of_work(tenant_id) as session:
            rows = await used(session, query)
            await stored(session, query)
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times[1:]), len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tail", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        postgres = Postgres(Path(folder) / "postgres", free_port())
        with running(postgres, Path(folder) / "logs"):
            passwords = {role: new_secret() for role in ROLES}
            create_roles(postgres.superuser_url, passwords)
            urls = {role: postgres.url(role, passwords[role]) for role in ROLES}
            upgrade(urls[MIGRATOR])
            asyncio.run(measure(urls, arguments.rows, arguments.tail))


if __name__ == "__main__":
    main()
