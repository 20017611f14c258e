"""What recovery needs of a reservation, and the claim by which gateways share the work."""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

COLUMNS = """
ALTER TABLE reservations
    ADD COLUMN sequences integer,
    ADD COLUMN choices_per_prompt integer,
    ADD COLUMN recovering_until timestamptz;
"""

# The first look only takes note: after an outage a living gateway settles or renews its own before
# the second. Whoever holds a row is not waited for, so any number of gateways share the work.
CLAIM_LAPSED = """
CREATE FUNCTION gateway.claim_lapsed(
    of_base text, pause interval, lost_after interval, most integer
) RETURNS SETOF jsonb
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH due AS (
        SELECT r.tenant_id, r.request_id, r.recovering_until IS NOT NULL AS was_seen
        FROM public.reservations r
        WHERE r.base_model = of_base AND r.expires_at < gateway.clock()
            AND (r.recovering_until IS NULL OR r.recovering_until < gateway.clock())
        ORDER BY r.expires_at LIMIT most
        FOR UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE public.reservations r SET recovering_until = gateway.clock() + pause
        FROM due d WHERE r.tenant_id = d.tenant_id AND r.request_id = d.request_id
        RETURNING to_jsonb(r) AS reservation, d.was_seen,
            r.expires_at < gateway.clock() - lost_after AS is_overdue
    )
    SELECT c.reservation || jsonb_build_object('is_overdue', c.is_overdue)
    FROM claimed c WHERE c.was_seen
$$;
REVOKE ALL ON FUNCTION gateway.claim_lapsed FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gateway.claim_lapsed TO loraplex_app;
"""


def upgrade() -> None:
    op.execute(COLUMNS)
    op.execute("SET LOCAL ROLE loraplex_system")
    op.execute(CLAIM_LAPSED)
    op.execute("RESET ROLE")
