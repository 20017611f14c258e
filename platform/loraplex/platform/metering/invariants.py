"""What must hold between the ledger and all that is derived from it, whatever has happened.

Each invariant is one statement, so it sees one moment. It answers with a row for each place where
it does not hold: whose, where, what should be there and what is.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.metering.buckets import BucketWidth
from loraplex.platform.metering.models import COUNTED
from loraplex.platform.metering.prices import GIB_MONTH_BYTE_SECONDS, TOKENS_PER_RATE

SHOWN: Final = 20
"""Violations that are told one by one; all are counted."""

SUMS = ", ".join(f"sum({name})::bigint AS {name}" for name in COUNTED)
COUNTS = ", ".join(("requests", *COUNTED))
WIDTHS = ", ".join(f"('{width}')" for width in BucketWidth)

ROLLUPS = f"""
    WITH of_ledger AS (
        SELECT tenant_id, date_trunc('day', created_at, 'UTC') AS day, count(*) AS requests, {SUMS}
        FROM ledger l
        WHERE created_at >= :since AND created_at < :until AND NOT EXISTS (
            SELECT FROM ledger_arrivals a
            WHERE a.tenant_id = l.tenant_id AND a.request_id = l.request_id)
        GROUP BY tenant_id, day
    ), expected AS (
        SELECT tenant_id, width, day, jsonb_build_array({COUNTS}) AS counts
        FROM of_ledger CROSS JOIN (VALUES {WIDTHS}) AS widths (width)
        WHERE width <> '{BucketWidth.MINUTE}' OR day >= :minutes_from
    ), summed AS (
        SELECT tenant_id, width, date_trunc('day', bucket_start, 'UTC') AS day,
            sum(requests)::bigint AS requests, {SUMS}
        FROM usage_rollups
        WHERE bucket_start >= :since AND bucket_start < :until
            AND (width <> '{BucketWidth.MINUTE}' OR bucket_start >= :minutes_from)
        GROUP BY tenant_id, width, day
    ), found AS (
        SELECT tenant_id, width, day, jsonb_build_array({COUNTS}) AS counts FROM summed
    )
    SELECT tenant_id, width || ' ' || day AS place, e.counts AS expected, f.counts AS found
    FROM expected e FULL JOIN found f USING (tenant_id, width, day)
    WHERE e.counts IS DISTINCT FROM f.counts
"""  # noqa: S608 - constants of this module alone

COSTS = f"""
    SELECT l.tenant_id, l.request_id AS place, to_jsonb(e.cost) AS expected,
        to_jsonb(l.cost_micros) AS found
    FROM ledger l LEFT JOIN prices p ON p.id = l.price_id CROSS JOIN LATERAL (
        SELECT div((l.prompt_tokens - l.cached_tokens)::numeric * p.input_micros_per_million
            + l.cached_tokens::numeric * p.cached_input_micros_per_million
            + l.output_tokens::numeric * p.output_micros_per_million
            + {TOKENS_PER_RATE - 1}, {TOKENS_PER_RATE})::bigint AS cost
    ) e
    WHERE l.created_at >= :since AND l.created_at < :until
        AND (e.cost IS DISTINCT FROM l.cost_micros OR l.cached_tokens > l.prompt_tokens)
"""  # noqa: S608

STORAGE_HOURS = f"""
    WITH hours AS (
        SELECT hour_start FROM generate_series(
            (SELECT CASE WHEN min(hour_start) < :since THEN :since ELSE min(hour_start) END
                FROM storage_hours),
            (SELECT least(billed_until, :until) FROM billed_storage) - interval '1 hour',
            interval '1 hour') hour_start
    ), stored AS (
        SELECT b.tenant_id, h.hour_start, sum(b.size_bytes * (
            floor(extract(epoch FROM least(
                coalesce(b.stored_until, 'infinity'), h.hour_start + interval '1 hour')))::bigint
            - floor(extract(epoch FROM greatest(b.stored_from, h.hour_start)))::bigint
        ))::bigint AS byte_seconds
        FROM hours h JOIN stored_blobs b ON b.stored_from < h.hour_start + interval '1 hour'
            AND (b.stored_until IS NULL OR b.stored_until > h.hour_start)
        GROUP BY b.tenant_id, h.hour_start
    ), billed AS (
        SELECT s.tenant_id, s.hour_start, s.byte_seconds, s.cost_micros, div(
            s.byte_seconds::numeric * p.storage_micros_per_gib_month
                + {GIB_MONTH_BYTE_SECONDS - 1}, {GIB_MONTH_BYTE_SECONDS})::bigint AS cost
        FROM storage_hours s LEFT JOIN prices p ON p.id = s.price_id
        WHERE s.hour_start >= :since AND s.hour_start < :until
    )
    SELECT tenant_id, hour_start::text AS place,
        jsonb_build_array(coalesce(s.byte_seconds, 0), b.cost) AS expected,
        jsonb_build_array(coalesce(b.byte_seconds, 0), b.cost_micros) AS found
    FROM stored s FULL JOIN billed b USING (tenant_id, hour_start)
    WHERE coalesce(s.byte_seconds, 0) <> coalesce(b.byte_seconds, 0)
        OR b.cost IS DISTINCT FROM b.cost_micros
"""  # noqa: S608

STORED_BLOBS = """
    SELECT tenant_id, digest AS place, to_jsonb(b.size_bytes) AS expected,
        to_jsonb(s.size_bytes) AS found
    FROM blobs b FULL JOIN (SELECT * FROM stored_blobs WHERE stored_until IS NULL) s
        USING (tenant_id, digest)
    WHERE b.size_bytes IS DISTINCT FROM s.size_bytes
"""

BUDGETS = """
    WITH now AS MATERIALIZED (SELECT gateway.clock() AS at), budgets AS (
        SELECT l.tenant_id, l.subject, l.subject_id, now.at,
            date_trunc('day', now.at, 'UTC') AS day, date_trunc('month', now.at, 'UTC') AS month
        FROM limits l CROSS JOIN now
        WHERE num_nonnulls(l.daily_budget_micros, l.monthly_budget_micros) > 0
    ), compared AS (
        SELECT b.tenant_id, b.subject, b.subject_id,
            jsonb_build_array(billed.day_micros, billed.month_micros) AS expected,
            jsonb_build_array(spent.day_micros, spent.month_micros) AS found
        FROM budgets b
        CROSS JOIN LATERAL gateway.spent(
            b.tenant_id, ARRAY[b.subject], ARRAY[b.subject_id], b.at) spent
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(e.cost_micros) FILTER (WHERE e.created_at >= b.day), 0)::bigint
                    AS day_micros,
                coalesce(sum(e.cost_micros), 0)::bigint AS month_micros
            FROM ledger e
            WHERE e.tenant_id = b.tenant_id AND e.created_at >= b.month AND e.created_at <= b.at
                AND CASE b.subject WHEN 'tenant' THEN true
                    WHEN 'key' THEN e.api_key_id::text = b.subject_id
                    WHEN 'member' THEN e.member_id::text = b.subject_id
                    ELSE gateway.called_model(e.model, e.adapter_id, e.base_model)
                        = b.subject_id END
        ) billed
    )
    SELECT tenant_id, subject || ' ' || subject_id AS place, expected, found
    FROM compared WHERE expected <> found
"""

NEGATIVE = """
    SELECT tenant_id, request_id AS place, to_jsonb(0) AS expected,
        to_jsonb(least(hold_micros, prompt_tokens, max_output_tokens)) AS found
    FROM reservations WHERE least(hold_micros, prompt_tokens, max_output_tokens) < 0
    UNION ALL
    SELECT tenant_id, subject || ' ' || subject_id, to_jsonb(0),
        to_jsonb(least(spent_day_micros, spent_month_micros))
    FROM limit_counters WHERE least(spent_day_micros, spent_month_micros) < 0
"""

# Longer than recovery waits for a gateway or a worker that knows how the request ended.
ORPHANS = """
    SELECT r.tenant_id, r.request_id AS place, to_jsonb('settled or running'::text) AS expected,
        CASE WHEN l.request_id IS NULL THEN to_jsonb('neither, since ' || r.expires_at)
            ELSE to_jsonb('settled and reserved'::text) END AS found
    FROM reservations r LEFT JOIN ledger l USING (tenant_id, request_id)
    WHERE l.request_id IS NOT NULL OR r.expires_at < now() - interval '3 hours'
"""

OF_A_PERIOD: Final = {"rollups": ROLLUPS, "costs": COSTS, "storage_hours": STORAGE_HOURS}
"""Of what was settled in `[since, until)`."""
OF_NOW: Final = {
    "stored_blobs": STORED_BLOBS,
    "budgets": BUDGETS,
    "negative_reservations": NEGATIVE,
    "orphaned_reservations": ORPHANS,
}
INVARIANTS: Final = (*OF_A_PERIOD, *OF_NOW)


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where an invariant does not hold; values are JSON."""

    tenant_id: UUID
    place: str
    expected: object
    found: object


@dataclass(frozen=True, slots=True)
class Finding:
    """All places where it does not hold are counted, the first of them told."""

    invariant: str
    count: int
    violations: list[Violation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """Half-open, of whole days in UTC; roll-ups by minute are looked at from `minutes_from` on."""

    since: datetime
    until: datetime
    minutes_from: datetime


async def check_period(session: AsyncSession, period: Period) -> list[Finding]:
    """Look at what was settled then. Needs role `system`."""
    values = {
        "since": period.since,
        "until": period.until,
        "minutes_from": period.minutes_from,
    }
    return [
        await _check(session, name, statement, values) for name, statement in OF_A_PERIOD.items()
    ]


async def check_now(session: AsyncSession) -> list[Finding]:
    """Look at what has no past. Needs role `system`."""
    return [await _check(session, name, statement, {}) for name, statement in OF_NOW.items()]


async def _check(
    session: AsyncSession, name: str, statement: str, values: dict[str, datetime]
) -> Finding:
    rows = (await session.execute(counted(statement), _used(statement, values))).all()
    return Finding(
        name,
        rows[0].total if rows else 0,
        [Violation(row.tenant_id, row.place, row.expected, row.found) for row in rows],
    )


def counted(statement: str) -> TextClause:
    return text(f"SELECT *, count(*) OVER () AS total FROM ({statement}) v LIMIT {SHOWN}")  # noqa: S608


def _used(statement: str, values: dict[str, datetime]) -> dict[str, datetime]:
    return {name: value for name, value in values.items() if f":{name}" in statement}
