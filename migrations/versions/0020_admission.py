"""Admits and settles: one function each, which a gateway calls as one statement.

They are system's and pass row security: each takes the tenant that the gateway authenticated.
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

# Takes in what settlements gave back, then counts. The row is locked by whoever calls.
CHARGE = """
CREATE FUNCTION gateway.charge(
    of_tenant uuid, of_subject text, of_id text,
    new_requests bigint, new_prompt_tokens bigint, new_output_tokens bigint, at timestamptz
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c public.limit_counters;
    d public.limit_settlements;
    now_second bigint := floor(extract(epoch FROM at))::bigint;
    settled_day date;
    settled_month date;
    has_news boolean := new_requests > 0;
    i integer;
BEGIN
    SELECT * INTO c FROM public.limit_counters k
    WHERE k.tenant_id = of_tenant AND k.subject = of_subject AND k.subject_id = of_id;
    -- Of a clock that was set back the later second counts: longer, never shorter.
    now_second := greatest(now_second, c.newest_second);
    FOR step IN 1 .. least(now_second - c.newest_second, 61) LOOP
        i := (c.newest_second + step) % 61 + 1;
        c.requests[i] := 0;
        c.prompt_tokens[i] := 0;
        c.output_tokens[i] := 0;
    END LOOP;
    c.newest_second := now_second;
    FOR d IN
        DELETE FROM public.limit_settlements s
        WHERE s.tenant_id = of_tenant AND s.subject = of_subject AND s.subject_id = of_id
        RETURNING s.*
    LOOP
        has_news := true;
        IF d.admitted_second >= now_second - 60 THEN
            i := d.admitted_second % 61 + 1;
            c.prompt_tokens[i] := c.prompt_tokens[i] - d.unused_prompt_tokens;
            c.output_tokens[i] := c.output_tokens[i] - d.unused_output_tokens;
        END IF;
        settled_day := (d.settled_at AT TIME ZONE 'UTC')::date;
        settled_month := date_trunc('month', settled_day)::date;
        IF settled_day > c.day THEN
            c.day := settled_day;
            c.spent_day_micros := 0;
        END IF;
        IF settled_day = c.day THEN
            c.spent_day_micros := c.spent_day_micros + d.cost_micros;
        END IF;
        IF settled_month > c.month THEN
            c.month := settled_month;
            c.spent_month_micros := 0;
        END IF;
        IF settled_month = c.month THEN
            c.spent_month_micros := c.spent_month_micros + d.cost_micros;
        END IF;
    END LOOP;
    IF NOT has_news THEN
        RETURN;
    END IF;
    i := now_second % 61 + 1;
    c.requests[i] := c.requests[i] + new_requests;
    c.prompt_tokens[i] := c.prompt_tokens[i] + new_prompt_tokens;
    c.output_tokens[i] := c.output_tokens[i] + new_output_tokens;
    UPDATE public.limit_counters k SET
        newest_second = c.newest_second, requests = c.requests,
        prompt_tokens = c.prompt_tokens, output_tokens = c.output_tokens,
        day = c.day, spent_day_micros = c.spent_day_micros,
        month = c.month, spent_month_micros = c.spent_month_micros
    WHERE k.tenant_id = of_tenant AND k.subject = of_subject AND k.subject_id = of_id;
END
$$;
"""

# Takes the reservation as JSON: what a gateway of a later release adds needs no new function. All
# of the tenant's subjects are locked before any is looked at, in one order.
ADMIT = """
CREATE FUNCTION gateway.admit(of_tenant uuid, request jsonb, lease interval) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    at timestamptz;
    tenant_state text;
    subjects text[] := ARRAY['tenant', 'model', 'member', 'key'];
    ids text[] := ARRAY['', coalesce(request->>'model_name', ''),
        coalesce(request->>'member_id', ''), coalesce(request->>'api_key_id', '')];
    kinds text[] := ARRAY['requests', 'tokens', 'prompt_tokens', 'output_tokens'];
    prompt bigint := (request->>'prompt_tokens')::bigint;
    output bigint := (request->>'max_output_tokens')::bigint;
    hold bigint := (request->>'hold_micros')::bigint;
    wanted bigint[] := ARRAY[1, prompt + output, prompt, output];
    u record;
    allowed bigint[];
    used bigint[];
    wait numeric;
    worst_rank integer := 0;
    worst_wait numeric := 0;
    refusal jsonb;
    least_remaining bigint[] := ARRAY[NULL, NULL, NULL, NULL]::bigint[];
    shown jsonb[] := ARRAY[NULL, NULL, NULL, NULL]::jsonb[];
    counted_places integer[] := '{}';
    rated_mask integer := 0;
    place integer;
BEGIN
    -- A reservation that a crash loses does no harm, so its commit does not wait for the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT t.state INTO tenant_state FROM public.tenants t WHERE t.id = of_tenant;
    IF tenant_state IS DISTINCT FROM 'active' THEN
        RETURN jsonb_build_object('refusal', jsonb_build_object('reason', 'suspended'));
    END IF;
    PERFORM 1 FROM unnest(subjects, ids) WITH ORDINALITY s (subject, subject_id, place)
        JOIN public.limit_counters c ON c.tenant_id = of_tenant
            AND c.subject = s.subject AND c.subject_id = s.subject_id
        ORDER BY s.place FOR UPDATE OF c;
    at := gateway.clock();

    FOR u IN SELECT * FROM gateway.limits_in_use(of_tenant, subjects, ids, at) LOOP
        allowed := ARRAY[u.requests_per_minute, u.tokens_per_minute, u.prompt_tokens_per_minute,
            u.output_tokens_per_minute];
        used := ARRAY[u.requests, u.prompt_tokens + u.output_tokens, u.prompt_tokens,
            u.output_tokens];
        IF num_nonnulls(VARIADIC allowed) > 0 THEN
            rated_mask := rated_mask | (1 << (u.place - 1));
        END IF;
        IF num_nonnulls(VARIADIC allowed) > 0
            OR num_nonnulls(u.daily_budget_micros, u.monthly_budget_micros) > 0 THEN
            counted_places := counted_places || u.place;
        END IF;
        FOR i IN 1 .. 4 LOOP
            CONTINUE WHEN allowed[i] IS NULL;
            IF least_remaining[i] IS NULL OR allowed[i] - used[i] < least_remaining[i] THEN
                least_remaining[i] := allowed[i] - used[i];
                shown[i] := jsonb_build_object('kind', kinds[i], 'limit', allowed[i],
                    'used', used[i], 'wanted', wanted[i],
                    'reset_seconds', u.newest_second + 61 - extract(epoch FROM at));
            END IF;
            CONTINUE WHEN used[i] + wanted[i] <= allowed[i];
            IF i > 1 AND wanted[i] > allowed[i] THEN
                CONTINUE WHEN worst_rank >= 4;
                worst_rank := 4;
                refusal := jsonb_build_object('reason', 'never_fits', 'value', wanted[i]);
            ELSE
                wait := gateway.window_wait(
                    of_tenant, u.subject, u.subject_id, i, used[i] + wanted[i] - allowed[i], at);
                CONTINUE WHEN worst_wait >= wait;
                worst_wait := wait;
                CONTINUE WHEN worst_rank > 1;
                worst_rank := 1;
                refusal := jsonb_build_object('reason', 'rate', 'value', used[i]);
            END IF;
            refusal := refusal || jsonb_build_object('subject', u.subject,
                'subject_id', u.subject_id, 'dimension', kinds[i] || '_per_minute',
                'limit', allowed[i]);
        END LOOP;
        IF u.running >= u.max_concurrent_requests AND worst_rank = 0 THEN
            worst_rank := 1;
            refusal := jsonb_build_object('reason', 'concurrency', 'subject', u.subject,
                'subject_id', u.subject_id, 'dimension', 'max_concurrent_requests',
                'limit', u.max_concurrent_requests, 'value', u.running);
        END IF;
        allowed := ARRAY[u.daily_budget_micros, u.monthly_budget_micros];
        used := ARRAY[u.spent_day_micros, u.spent_month_micros];
        FOR i IN 1 .. 2 LOOP
            CONTINUE WHEN allowed[i] IS NULL
                OR used[i] + u.reserved_micros + hold <= allowed[i];
            place := CASE WHEN hold > allowed[i] THEN 4
                WHEN used[i] + hold > allowed[i] THEN 3 ELSE 2 END;
            CONTINUE WHEN worst_rank >= place;
            worst_rank := place;
            refusal := jsonb_build_object(
                'reason', (ARRAY['budget_held', 'budget_gone', 'never_fits'])[place - 1],
                'subject', u.subject, 'subject_id', u.subject_id,
                'dimension', (ARRAY['daily_budget_micros', 'monthly_budget_micros'])[i],
                'limit', allowed[i],
                'value', CASE place WHEN 4 THEN hold WHEN 3 THEN used[i]
                    ELSE used[i] + u.reserved_micros END);
        END LOOP;
    END LOOP;

    IF refusal IS NULL THEN
        FOREACH place IN ARRAY counted_places LOOP
            IF rated_mask & (1 << (place - 1)) > 0 THEN
                PERFORM gateway.charge(
                    of_tenant, subjects[place], ids[place], 1, prompt, output, at);
            ELSE
                PERFORM gateway.charge(of_tenant, subjects[place], ids[place], 0, 0, 0, at);
            END IF;
        END LOOP;
        INSERT INTO public.reservations SELECT r.* FROM jsonb_populate_record(
            NULL::public.reservations, request || jsonb_build_object(
                'tenant_id', of_tenant, 'charged', rated_mask, 'admitted_at', at,
                'created_at', at, 'expires_at', at + lease)) r;
    END IF;
    RETURN jsonb_build_object('admitted_at', at,
        'refusal', refusal || jsonb_build_object(
            'retry_after_seconds', greatest(1, ceil(worst_wait))),
        'windows', array_to_json(array_remove(shown, NULL)));
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
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT u.subject, u.subject_id, p.period, p.period_start, e.event, p.budget_micros,
        p.spent_micros
    FROM gateway.limits_in_use(of_tenant, of_subjects, of_ids, at) u
    CROSS JOIN LATERAL (VALUES
        ('day', (at AT TIME ZONE 'UTC')::date, u.daily_budget_micros, u.spent_day_micros),
        ('month', date_trunc('month', at AT TIME ZONE 'UTC')::date,
            u.monthly_budget_micros, u.spent_month_micros)
    ) p (period, period_start, budget_micros, spent_micros)
    CROSS JOIN LATERAL (VALUES
        ('budget.soft_exceeded', ceil(p.budget_micros * u.soft_budget_percent / 100.0)),
        ('budget.exhausted', p.budget_micros)
    ) e (event, mark_micros)
    WHERE p.spent_micros >= e.mark_micros AND p.spent_micros > 0 AND NOT EXISTS (
        SELECT FROM public.budget_alerts a
        WHERE a.tenant_id = of_tenant AND a.subject = u.subject AND a.subject_id = u.subject_id
            AND a.period = p.period AND a.period_start = p.period_start AND a.event = e.event)
$$;
"""

# The reservation's end and the ledger's row decide together that a request is settled once. The
# shared lock keeps settlements from falling between what a new budget counts and what it sees.
SETTLE = """
CREATE FUNCTION gateway.settle(of_tenant uuid, entry jsonb) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    at timestamptz := gateway.clock();
    held public.reservations;
    is_new boolean;
    cost bigint := 0;
    unused_prompt bigint := 0;
    unused_output bigint := 0;
    subjects text[] := ARRAY['tenant', 'model', 'member', 'key'];
    ids text[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('limits ' || of_tenant, 0));
    DELETE FROM public.reservations r
        WHERE r.tenant_id = of_tenant AND r.request_id = entry->>'request_id'
        RETURNING r.* INTO held;
    INSERT INTO public.ledger SELECT l.* FROM jsonb_populate_record(
            NULL::public.ledger,
            entry || jsonb_build_object('tenant_id', of_tenant, 'created_at', at)) l
        ON CONFLICT DO NOTHING;
    is_new := FOUND;
    IF is_new THEN
        cost := coalesce((entry->>'cost_micros')::bigint, 0);
    END IF;
    IF held.charged > 0 AND is_new THEN
        unused_prompt := held.prompt_tokens - (entry->>'prompt_tokens')::bigint;
        unused_output := held.max_output_tokens - (entry->>'output_tokens')::bigint;
    END IF;
    IF cost = 0 AND unused_prompt = 0 AND unused_output = 0 THEN
        RETURN false;
    END IF;
    IF held.model_name IS NULL THEN  -- a crash took the reservation with it
        SELECT a.name INTO held.model_name FROM public.adapters a
        WHERE a.tenant_id = of_tenant AND a.id = (entry->>'adapter_id')::uuid;
    END IF;
    ids := ARRAY['', held.model_name, entry->>'member_id', entry->>'api_key_id'];
    INSERT INTO public.limit_settlements
    SELECT of_tenant, l.subject, l.subject_id, entry->>'request_id',
        coalesce(floor(extract(epoch FROM held.admitted_at))::bigint, 0),
        CASE WHEN was_charged THEN unused_prompt ELSE 0 END,
        CASE WHEN was_charged THEN unused_output ELSE 0 END,
        CASE WHEN budgeted THEN cost ELSE 0 END, at
    FROM unnest(subjects, ids) WITH ORDINALITY s (subject, subject_id, place)
    JOIN public.limits l ON l.tenant_id = of_tenant
        AND l.subject = s.subject AND l.subject_id = s.subject_id
    CROSS JOIN LATERAL (
        SELECT coalesce(held.charged, 0) & (1 << (s.place - 1)::integer) > 0 AS was_charged,
            num_nonnulls(l.daily_budget_micros, l.monthly_budget_micros) > 0 AS budgeted
    ) counted
    WHERE (was_charged AND (unused_prompt <> 0 OR unused_output <> 0))
        OR (budgeted AND cost <> 0);
    RETURN cost > 0 AND EXISTS (
        SELECT FROM gateway.budgets_to_tell(of_tenant, subjects, ids, at));
END
$$;
"""

RIGHTS = """
REVOKE ALL ON FUNCTION gateway.charge, gateway.admit, gateway.budgets_to_tell, gateway.settle
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gateway.admit, gateway.budgets_to_tell, gateway.settle TO loraplex_app;
"""


def upgrade() -> None:
    op.execute("SET LOCAL ROLE loraplex_system")
    op.execute(CHARGE + ADMIT + BUDGETS_TO_TELL + SETTLE + RIGHTS)
    op.execute("RESET ROLE")
