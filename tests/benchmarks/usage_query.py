"""How long usage takes to answer from a ledger of a million rows.

    python -m tests.benchmarks.usage_query [--rows 1000000] [--tail 2000]

Embedded Postgres with its own settings; a ledger of one tenant over 31 days, made by SQL: 8 keys, 4
members, 2 base models, 50 adapters of 2 versions. All but the tail is in the roll-ups: what 400
requests a second leave between two runs of the job. Each question is asked as the API asks it, in a
transaction of role `app`; the figures are the median and the best of nine, after one that nobody
counts.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.engine import make_url

from loraplex.engine.benchmarks.scripts import print_line
from loraplex.platform.database.migrate import upgrade
from loraplex.platform.database.roles import APP, DATABASE, MIGRATOR, ROLES, SYSTEM, create_roles
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.private_files import new_secret
from loraplex.platform.embedded.processes import running
from loraplex.platform.metering.buckets import BucketWidth
from loraplex.platform.metering.rollups import rebuild
from loraplex.platform.metering.usage import Group, UsageFilter, UsageQuery, stored, used
from loraplex.platform.tenancy.identity import TenantId
from tests.platform.metering.ledgers import ACTOR, MIDNIGHT, new_customer

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


class Timing(NamedTuple):
    median_ms: float
    best_ms: float
    answered_rows: int


async def measure(urls: dict[str, str], superuser_url: str, rows: int, tail: int) -> None:
    app, system = Database(urls[APP]), Database(urls[SYSTEM])
    superuser = Database(superuser_url)
    customer = await new_customer(system, keys=8)
    values = {
        "tenant": customer.tenant_id,
        "keys": list(customer.key_ids),
        "start": MIDNIGHT,
        "rows": rows,
    }
    began = time.perf_counter()
    async with superuser.unit_of_work() as session:
        # Without the triggers that look at each row: the roll-ups are made of all of them below.
        await session.execute(text("SET LOCAL session_replication_role = replica"))
        await session.execute(FILL, values | {"first": 0, "last": rows - tail - 1})
    await superuser.dispose()
    print_line("made", rows=rows - tail, seconds=time.perf_counter() - began)
    began = time.perf_counter()
    await rebuild(system, customer.tenant_id, EVER, ACTOR)
    print_line("rebuilt", seconds=time.perf_counter() - began)
    async with system.unit_of_work() as session:
        await session.execute(FILL, values | {"first": rows - tail, "last": rows - 1})
    for (width, groups), goal_ms in QUESTIONS.items():
        timing = await ask(app, customer.tenant_id, groups, width)
        print_line(
            "usage_query",
            bucket_width=width,
            group_by=groups,
            median_ms=timing.median_ms,
            best_ms=timing.best_ms,
            answered_rows=timing.answered_rows,
            goal_ms=goal_ms,
        )
    await app.dispose()
    await system.dispose()


async def ask(
    app: Database, tenant_id: TenantId, groups: tuple[Group, ...], width: BucketWidth
) -> Timing:
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
    return Timing(statistics.median(times[1:]), min(times[1:]), len(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tail", type=int, default=2_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        postgres = Postgres(Path(folder) / "postgres", free_port())
        with running(postgres, Path(folder) / "logs"):
            passwords = {role: new_secret() for role in ROLES}
            create_roles(postgres.superuser_url, passwords)
            urls = {role: postgres.url(role, passwords[role]) for role in ROLES}
            upgrade(urls[MIGRATOR])
            superuser = make_url(postgres.superuser_url).set(database=DATABASE)
            superuser_url = superuser.render_as_string(hide_password=False)
            asyncio.run(measure(urls, superuser_url, arguments.rows, arguments.tail))


if __name__ == "__main__":
    main()
