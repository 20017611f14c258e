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

# Reads with the rights of whoever calls. A limit that is NULL was not counted either.
LIMITS_IN_USE = """
CREATE FUNCTION gateway.limits_in_use(
    of_tenant uuid, of_subjects text[], of_ids text[], at timestamptz
) RETURNS TABLE (
    place integer, subject text, subject_id text,
    requests_per_minute bigint, tokens_per_minute bigint, prompt_tokens_per_minute bigint,
    output_tokens_per_minute bigint, max_concurrent_requests bigint,
    daily_budget_micros bigint, monthly_budget_micros bigint, soft_budget_percent integer,
    newest_second bigint, requests bigint, prompt_tokens bigint, output_tokens bigint,
    running bigint, reserved_micros bigint, spent_day_micros bigint, spent_month_micros bigint
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    oldest_second bigint := floor(extract(epoch FROM at))::bigint - 60;
    today date := (at AT TIME ZONE 'UTC')::date;
    this_month date := date_trunc('month', at AT TIME ZONE 'UTC')::date;
BEGIN
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT r.expires_at > at AS is_live, r.model_name, r.member_id, r.api_key_id, r.hold_micros
        FROM public.reservations r WHERE r.tenant_id = of_tenant
    )
    SELECT s.place::integer, l.subject::text, l.subject_id::text,
        l.requests_per_minute, l.tokens_per_minute, l.prompt_tokens_per_minute,
        l.output_tokens_per_minute, l.max_concurrent_requests,
        l.daily_budget_micros, l.monthly_budget_micros, l.soft_budget_percent,
        c.newest_second, coalesce(rings.requests, 0)::bigint,
        (coalesce(rings.prompt_tokens, 0) - given_back.prompt_tokens)::bigint,
        (coalesce(rings.output_tokens, 0) - given_back.output_tokens)::bigint,
        reserved.running, reserved.micros,
        CASE WHEN c.day = today THEN c.spent_day_micros ELSE 0 END + given_back.day_micros,
        CASE WHEN c.month = this_month THEN c.spent_month_micros ELSE 0 END
            + given_back.month_micros
    FROM unnest(of_subjects, of_ids) WITH ORDINALITY s (subject, subject_id, place)
    JOIN public.limits l ON l.tenant_id = of_tenant
        AND l.subject = s.subject AND l.subject_id = s.subject_id
    JOIN public.limit_counters c ON c.tenant_id = of_tenant
        AND c.subject = s.subject AND c.subject_id = s.subject_id
    CROSS JOIN LATERAL (
        SELECT sum(ring.requests) AS requests, sum(ring.prompt_tokens) AS prompt_tokens,
            sum(ring.output_tokens) AS output_tokens
        FROM unnest(c.requests, c.prompt_tokens, c.output_tokens) WITH ORDINALITY
            ring (requests, prompt_tokens, output_tokens, place)
        WHERE c.newest_second >= oldest_second
            AND c.newest_second - (c.newest_second + 62 - ring.place) % 61 >= oldest_second
    ) rings
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(d.unused_prompt_tokens)
                FILTER (WHERE d.admitted_second >= oldest_second), 0) AS prompt_tokens,
            coalesce(sum(d.unused_output_tokens)
                FILTER (WHERE d.admitted_second >= oldest_second), 0) AS output_tokens,
            coalesce(sum(d.cost_micros) FILTER (
                WHERE (d.settled_at AT TIME ZONE 'UTC')::date = today), 0)::bigint AS day_micros,
            coalesce(sum(d.cost_micros) FILTER (
                WHERE date_trunc('month', d.settled_at AT TIME ZONE 'UTC')::date = this_month
            ), 0)::bigint AS month_micros
        FROM public.limit_settlements d WHERE d.tenant_id = of_tenant
            AND d.subject = s.subject AND d.subject_id = s.subject_id
    ) given_back
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE h.is_live) AS running,
            coalesce(sum(h.hold_micros), 0)::bigint AS micros
        FROM held h WHERE CASE s.subject
            WHEN 'tenant' THEN true
            WHEN 'model' THEN h.model_name = s.subject_id
            WHEN 'member' THEN h.member_id = s.subject_id::uuid
            ELSE h.api_key_id = s.subject_id::uuid END
    ) reserved
    ORDER BY s.place;
END
$$;
"""

# Seconds until `need` of what lies in a ring has left it; 60 where that much never lay in it.
WINDOW_WAIT = """
CREATE FUNCTION gateway.window_wait(
    of_tenant uuid, of_subject text, of_id text, dimension integer, need bigint, at timestamptz
) RETURNS numeric
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now_second bigint := floor(extract(epoch FROM at))::bigint;
    wait numeric;
BEGIN
    WITH rings AS (
        SELECT c.newest_second - (c.newest_second + 62 - ring.place) % 61 AS second,
            CASE dimension WHEN 1 THEN ring.requests
                WHEN 2 THEN ring.prompt_tokens + ring.output_tokens
                WHEN 3 THEN ring.prompt_tokens ELSE ring.output_tokens END AS counted
        FROM public.limit_counters c CROSS JOIN LATERAL
            unnest(c.requests, c.prompt_tokens, c.output_tokens) WITH ORDINALITY
            ring (requests, prompt_tokens, output_tokens, place)
        WHERE c.tenant_id = of_tenant AND c.subject = of_subject AND c.subject_id = of_id
        UNION ALL
        SELECT d.admitted_second,
            -CASE dimension WHEN 1 THEN 0
                WHEN 2 THEN d.unused_prompt_tokens + d.unused_output_tokens
                WHEN 3 THEN d.unused_prompt_tokens ELSE d.unused_output_tokens END
        FROM public.limit_settlements d
        WHERE d.tenant_id = of_tenant AND d.subject = of_subject AND d.subject_id = of_id
    ), leaving AS (
        SELECT r.second, sum(sum(r.counted)) OVER (ORDER BY r.second) AS gone
        FROM rings r WHERE r.second >= now_second - 60 GROUP BY r.second
    )
    SELECT min(l.second) + 61 - extract(epoch FROM at) INTO wait
    FROM leaving l WHERE l.gone >= need;
    RETURN coalesce(wait, 60);
END
$$;
"""

RIGHTS = """
REVOKE ALL ON FUNCTION gateway.clock, gateway.limits_in_use, gateway.window_wait FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gateway.clock, gateway.limits_in_use TO loraplex_app;
"""


def upgrade() -> None:
    op.execute("SET LOCAL ROLE loraplex_system")
    op.execute(CLOCK + LIMITS_IN_USE + WINDOW_WAIT + RIGHTS)
    op.execute("RESET ROLE")
