"""Reads what is used of limits, by one clock."""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

# The clock that every limit and budget goes by. A test sets `loraplex.clock_offset` on its own
# connections to have an hour or a month go by.
CLOCK = """
CREATE FUNCTION gateway.clock() RETURNS timestamptz
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT clock_timestamp()
        + coalesce(nullif(current_setting('loraplex.clock_offset', true), ''), '0')::interval
$$;
"""

# What is spent of budgets: what the counter has, and what it has not taken in yet. All of these
# read with the rights of whoever calls. They are plpgsql for its cached plans.
SPENT = """
CREATE FUNCTION gateway.spent(
    of_tenant uuid, of_subjects text[], of_ids text[], at timestamptz
) RETURNS TABLE (place integer, day_micros bigint, month_micros bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    today date := (at AT TIME ZONE 'UTC')::date;
    this_month date := date_trunc('month', at AT TIME ZONE 'UTC')::date;
BEGIN
    RETURN QUERY
    SELECT s.place::integer,
        CASE WHEN c.day = today THEN c.spent_day_micros ELSE 0 END + news.day_micros,
        CASE WHEN c.month = this_month THEN c.spent_month_micros ELSE 0 END + news.month_micros
    FROM unnest(of_subjects, of_ids) WITH ORDINALITY s (subject, subject_id, place)
    JOIN public.limit_counters c ON c.tenant_id = of_tenant
        AND c.subject = s.subject AND c.subject_id = s.subject_id
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(d.cost_micros) FILTER (
                WHERE (d.settled_at AT TIME ZONE 'UTC')::date = today), 0)::bigint AS day_micros,
            coalesce(sum(d.cost_micros) FILTER (
                WHERE date_trunc('month', d.settled_at AT TIME ZONE 'UTC')::date = this_month
            ), 0)::bigint AS month_micros
        FROM public.limit_settlements d WHERE d.tenant_id = of_tenant
            AND d.subject = s.subject AND d.subject_id = s.subject_id
    ) news;
END
$$;
"""

# A rate that is not limited was not counted either.
LIMITS_IN_USE = """
CREATE FUNCTION gateway.limits_in_use(
    of_tenant uuid, of_subjects text[], of_ids text[], at timestamptz
) RETURNS TABLE (
    subject text, subject_id text,
    requests bigint, prompt_tokens bigint, output_tokens bigint,
    running bigint, reserved_micros bigint, spent_day_micros bigint, spent_month_micros bigint
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    oldest_second bigint := floor(extract(epoch FROM at))::bigint - 60;
BEGIN
    RETURN QUERY
    SELECT c.subject::text, c.subject_id::text, coalesce(rings.requests, 0)::bigint,
        (coalesce(rings.prompt_tokens, 0) - given_back.prompt_tokens)::bigint,
        (coalesce(rings.output_tokens, 0) - given_back.output_tokens)::bigint,
        reserved.running, reserved.micros, m.day_micros, m.month_micros
    FROM gateway.spent(of_tenant, of_subjects, of_ids, at) m
    JOIN public.limit_counters c ON c.tenant_id = of_tenant
        AND c.subject = of_subjects[m.place] AND c.subject_id = of_ids[m.place]
    CROSS JOIN LATERAL (
        SELECT sum(ring.requests) AS requests, sum(ring.prompt_tokens) AS prompt_tokens,
            sum(ring.output_tokens) AS output_tokens
        FROM unnest(c.requests, c.prompt_tokens, c.output_tokens) WITH ORDINALITY
            ring (requests, prompt_tokens, output_tokens, place)
        WHERE c.newest_second - (c.newest_second + 62 - ring.place) % 61 >= oldest_second
    ) rings
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(d.unused_prompt_tokens), 0) AS prompt_tokens,
            coalesce(sum(d.unused_output_tokens), 0) AS output_tokens
        FROM public.limit_settlements d WHERE d.tenant_id = of_tenant
            AND d.subject = c.subject AND d.subject_id = c.subject_id
            AND d.admitted_second >= oldest_second
    ) given_back
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE r.expires_at > at) AS running,
            coalesce(sum(r.hold_micros), 0)::bigint AS micros
        FROM public.reservations r WHERE r.tenant_id = of_tenant AND CASE c.subject
            WHEN 'tenant' THEN true
            WHEN 'model' THEN r.model_name = c.subject_id
            WHEN 'member' THEN r.member_id::text = c.subject_id
            ELSE r.api_key_id::text = c.subject_id END
    ) reserved
    ORDER BY m.place;
END
$$;
"""

# Which budgets have passed a mark that nobody was told of in this period.
BUDGETS_TO_TELL = """
CREATE FUNCTION gateway.budgets_to_tell(
    of_tenant uuid, of_subjects text[], of_ids text[], at timestamptz
) RETURNS TABLE (
    subject text, subject_id text, period text, period_start date, event text,
    budget_micros bigint, spent_micros bigint
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT l.subject::text, l.subject_id::text, p.period, p.period_start, e.event,
        p.budget_micros, p.spent_micros
    FROM gateway.spent(of_tenant, of_subjects, of_ids, at) m
    JOIN public.limits l ON l.tenant_id = of_tenant
        AND l.subject = of_subjects[m.place] AND l.subject_id = of_ids[m.place]
    CROSS JOIN LATERAL (VALUES
        ('day', (at AT TIME ZONE 'UTC')::date, l.daily_budget_micros, m.day_micros),
        ('month', date_trunc('month', at AT TIME ZONE 'UTC')::date,
            l.monthly_budget_micros, m.month_micros)
    ) p (period, period_start, budget_micros, spent_micros)
    CROSS JOIN LATERAL (VALUES
        ('budget.soft_exceeded', ceil(p.budget_micros * l.soft_budget_percent / 100.0)),
        ('budget.exhausted', p.budget_micros)
    ) e (event, mark_micros)
    WHERE p.spent_micros >= e.mark_micros AND p.spent_micros > 0 AND NOT EXISTS (
        SELECT FROM public.budget_alerts a
        WHERE a.tenant_id = of_tenant AND a.subject = l.subject AND a.subject_id = l.subject_id
            AND a.period = p.period AND a.period_start = p.period_start AND a.event = e.event);
END
$$;
"""

RIGHTS = """
REVOKE ALL ON FUNCTION
    gateway.clock, gateway.spent, gateway.limits_in_use, gateway.budgets_to_tell FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    gateway.clock, gateway.spent, gateway.limits_in_use, gateway.budgets_to_tell TO loraplex_app;
"""


def upgrade() -> None:
    op.execute("SET LOCAL ROLE loraplex_system")
    op.execute(CLOCK + SPENT + LIMITS_IN_USE + BUDGETS_TO_TELL + RIGHTS)
    op.execute("RESET ROLE")
