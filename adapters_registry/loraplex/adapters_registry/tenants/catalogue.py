"""Which tables hold a tenant's rows, as the database says: tomorrow's tables are included."""

from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

KEPT = frozenset(
    {
        "ledger",
        "ledger_arrivals",
        "usage_rollups",
        "usage_rollup_hours",
        "storage_hours",
        "stored_blobs",
        "prices",
        "audit_events",
        "tenant_deletions",
        "reservations",
    }
)
"""What a deletion leaves, without names: the bill; the audit log, whose own retention ends it; the
deletion itself. Reservations end by themselves before a deletion begins."""

SCRUBBED = frozenset({"tenants", "api_keys", "memberships"})
"""Rows that the bill refers to: they stay as numbers, without anything that names anybody."""

SECRET_TYPES = frozenset({"bytea"})
"""Hashes and what is sealed: never exported."""

TABLES = text(
    """
    SELECT c.relname AS name,
           array_agg(a.attname::text ORDER BY a.attnum) FILTER (
               WHERE format_type(a.atttypid, NULL) <> ALL (:secret_types)) AS columns
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relkind = 'r' AND EXISTS (
        SELECT FROM pg_attribute o WHERE o.attrelid = c.oid AND o.attname = 'tenant_id')
    GROUP BY c.relname ORDER BY c.relname
    """
)
REFERENCES = text(
    """
    SELECT DISTINCT s.relname AS referring, t.relname AS referred
    FROM pg_constraint k
    JOIN pg_class s ON s.oid = k.conrelid JOIN pg_class t ON t.oid = k.confrelid
    WHERE k.contype = 'f' AND s.oid <> t.oid
    """
)


class TenantTable(NamedTuple):
    name: str
    columns: list[str]
    """Those that may be told: no hash, nothing sealed."""


async def tenant_tables(session: AsyncSession) -> list[TenantTable]:
    """Every table with a `tenant_id`, those that refer to others before those they refer to."""
    found = {
        row.name: TenantTable(row.name, list(row.columns))
        for row in await session.execute(TABLES, {"secret_types": list(SECRET_TYPES)})
    }
    referring: dict[str, set[str]] = {name: set() for name in found}
    for row in await session.execute(REFERENCES):
        if row.referring in found and row.referred in found:
            referring[row.referred].add(row.referring)
    ordered: list[TenantTable] = []
    placed: set[str] = set()
    while len(ordered) < len(found):
        ready = sorted(name for name in found if name not in placed and referring[name] <= placed)
        assert ready, "tables do not refer to each other in a circle"
        placed.update(ready)
        ordered += [found[name] for name in ready]
    return ordered
