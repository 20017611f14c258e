"""Sums the ledger up by minute, hour and day.

Rows that have arrived since are added, each in the transaction that takes it off
`ledger_arrivals`: a run that dies has done nothing, one that is repeated finds less. Roll-ups hold
nothing that the ledger does not, and can be made anew from it.
"""

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import delete, text
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.buckets import BucketWidth
from loraplex.platform.metering.models import COUNTED, ROLLUP_KEYS, USAGE_ROLLUPS
from loraplex.platform.tenancy.identity import TenantId

BATCH_ROWS: Final = 10_000
LOCK: Final = 0x726F6C6C
"""Advisory lock: two runs at once would wait for each other's rows, in any order."""

KEYS = ", ".join(ROLLUP_KEYS)
SUMS = ", ".join(f"sum({name})" for name in COUNTED)
WIDTHS = ", ".join(f"('{width}', '{width.unit}')" for width in BucketWidth)
# `minutes_from`: earlier minutes are forgotten, and a sum of some of their rows would be wrong.
# In order, so that the rows of days lie together and not each on a page full of minutes: a month of
# them is then read in half the time.
SUMMED = f"""
    SELECT tenant_id, width, date_trunc(unit, created_at, 'UTC') AS bucket_start, {KEYS},
        count(*), {SUMS}
    FROM {{rows}} CROSS JOIN (VALUES {WIDTHS}) AS widths (width, unit)
    WHERE {{condition}} (width <> '{BucketWidth.MINUTE}' OR created_at >= :minutes_from)
    GROUP BY tenant_id, width, bucket_start, {KEYS}
    ORDER BY tenant_id, width, bucket_start
"""  # noqa: S608 - constants of this module alone
COLUMNS = f"tenant_id, width, bucket_start, {KEYS}, requests, {', '.join(COUNTED)}"
ADD = text(
    f"""
    WITH found AS (
        SELECT tenant_id, request_id FROM ledger_arrivals LIMIT {BATCH_ROWS} FOR UPDATE SKIP LOCKED
    ), taken AS (
        DELETE FROM ledger_arrivals a USING found f
        WHERE a.tenant_id = f.tenant_id AND a.request_id = f.request_id
        RETURNING a.tenant_id, a.request_id
    ), arrived AS (  -- each by its key: never by reading the ledger, whatever the planner thinks
        SELECT l.* FROM taken t CROSS JOIN LATERAL (
            SELECT * FROM ledger WHERE tenant_id = t.tenant_id AND request_id = t.request_id LIMIT 1
        ) l
    ), added AS (
        INSERT INTO usage_rollups AS r ({COLUMNS}) {SUMMED.format(rows="arrived", condition="")}
        ON CONFLICT (tenant_id, width, bucket_start, {KEYS}) DO UPDATE SET
            requests = r.requests + excluded.requests,
            {", ".join(f"{name} = r.{name} + excluded.{name}" for name in COUNTED)}
    )
    SELECT count(*) FROM taken
    """  # noqa: S608
)
REBUILD = text(
    f"INSERT INTO usage_rollups ({COLUMNS})"
    + SUMMED.format(rows="ledger", condition="tenant_id = :tenant_id AND")
)


async def add_arrivals(session: AsyncSession, minutes_from: datetime) -> int:
    """Add a batch of new ledger rows to the roll-ups; how many. Needs role `system`.

    Minutes before `minutes_from` get nothing. 0 also while another run is at it.
    """
    if not await session.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": LOCK}):
        return 0
    added: int | None = await session.scalar(ADD, {"minutes_from": minutes_from})
    return added or 0


async def rebuild(
    database: Database, tenant_id: UUID, minutes_from: datetime, actor: Actor
) -> None:
    """Make one tenant's roll-ups anew from the ledger, in one transaction of role `system`.

    Every statement sees the ledger of one moment. It begins when the table's lock is held, which
    keeps others from adding; readers see the old roll-ups until the new ones are committed.
    """
    async with database.unit_of_work() as session:
        await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        await session.execute(text("LOCK TABLE usage_rollups IN SHARE ROW EXCLUSIVE MODE"))
        tenant: dict[str, Any] = {"tenant_id": tenant_id}
        await session.execute(
            text("DELETE FROM usage_rollups WHERE tenant_id = :tenant_id"), tenant
        )
        await session.execute(
            text("DELETE FROM ledger_arrivals WHERE tenant_id = :tenant_id"), tenant
        )
        await session.execute(REBUILD, tenant | {"minutes_from": minutes_from})
        await record(
            session,
            actor,
            "usage.rebuilt",
            tenant_id=TenantId(tenant_id),
            target=Target("usage", tenant_id),
            after={"minutes_from": minutes_from.isoformat()},
        )


async def forget_minutes(session: AsyncSession, minutes_from: datetime) -> None:
    """Delete the roll-ups by minute of before; hours and days stay."""
    table = USAGE_ROLLUPS.c
    await session.execute(
        delete(USAGE_ROLLUPS).where(
            table.width == BucketWidth.MINUTE, table.bucket_start < minutes_from
        )
    )


def minutes_surely_kept_from(now: datetime, kept_days: int) -> datetime:
    """A day later, so that a reader whose clock is behind asks for nothing that has just gone."""
    return minutes_kept_from(now, kept_days - 1)


def minutes_kept_from(now: datetime, kept_days: int) -> datetime:
    """The midnight that roll-ups by minute are kept from, so that no day is kept in part."""
    return BucketWidth.DAY.begin(now) - timedelta(days=kept_days)
