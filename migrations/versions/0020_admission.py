"""Admits and settles: one function each, which a gateway calls as one statement.

They are system's and pass row security: each takes the tenant that the gateway authenticated.
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

# Seconds until `need` of what lies in a row's ring has left it; 60 where that much never lay there.
WINDOW_WAIT = """
CREATE FUNCTION gateway.window_wait(
    k public.limit_counters, dimension integer, need bigint, at timestamptz
) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    oldest_second bigint := floor(extract(epoch FROM at))::bigint - 60;
    gone bigint := 0;
    i integer;
BEGIN
    FOR step IN 0 .. 60 LOOP
        i := (oldest_second + step) % 61 + 1;
        gone := gone + CASE dimension WHEN 1 THEN k.requests[i]
            WHEN 2 THEN k.prompt_tokens[i] + k.output_tokens[i]
            WHEN 3 THEN k.prompt_tokens[i] ELSE k.output_tokens[i] END;
        IF gone >= need THEN
            RETURN oldest_second + step + 61 - extract(epoch FROM at);
        END IF;
    END LOOP;
    RETURN 60;
END
$$;
"""

# A row at the second that it is: what has left the window is out, what settlements gave back in.
BROUGHT_UP = """
CREATE FUNCTION gateway.brought_up(
    k public.limit_counters, settled public.limit_settlements[], at timestamptz
) RETURNS public.limit_counters
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Of a clock that was set back the later second counts: longer, never shorter.
    now_second bigint := greatest(floor(extract(epoch FROM at))::bigint, k.newest_second);
    d public.limit_settlements;
    settled_day date;
    settled_month date;
    i integer;
BEGIN
    IF now_second - k.newest_second > 60 THEN
        k.requests := array_fill(0::bigint, ARRAY[61]);
        k.prompt_tokens := k.requests;
        k.output_tokens := k.requests;
        k.all_requests := 0;
        k.all_prompt_tokens := 0;
        k.all_output_tokens := 0;
    ELSE
        FOR step IN 1 .. now_second - k.newest_second LOOP
            i := (k.newest_second + step) % 61 + 1;
            k.all_requests := k.all_requests - k.requests[i];
            k.all_prompt_tokens := k.all_prompt_tokens - k.prompt_tokens[i];
            k.all_output_tokens := k.all_output_tokens - k.output_tokens[i];
            k.requests[i] := 0;
            k.prompt_tokens[i] := 0;
            k.output_tokens[i] := 0;
        END LOOP;
    END IF;
    k.newest_second := now_second;
    IF settled IS NULL THEN
        RETURN k;
    END IF;
    FOREACH d IN ARRAY settled LOOP
        CONTINUE WHEN d.subject <> k.subject OR d.subject_id <> k.subject_id;
        IF d.admitted_second >= now_second - 60 THEN
            i := d.admitted_second % 61 + 1;
            k.prompt_tokens[i] := k.prompt_tokens[i] - d.unused_prompt_tokens;
            k.output_tokens[i] := k.output_tokens[i] - d.unused_output_tokens;
            k.all_prompt_tokens := k.all_prompt_tokens - d.unused_prompt_tokens;
            k.all_output_tokens := k.all_output_tokens - d.unused_output_tokens;
        END IF;
        settled_day := (d.settled_at AT TIME ZONE 'UTC')::date;
        settled_month := date_trunc('month', d.settled_at AT TIME ZONE 'UTC')::date;
        IF settled_day > k.day THEN
            k.day := settled_day;
            k.spent_day_micros := 0;
        END IF;
        IF settled_day = k.day THEN
            k.spent_day_micros := k.spent_day_micros + d.cost_micros;
        END IF;
        IF settled_month > k.month THEN
            k.month := settled_month;
            k.spent_month_micros := 0;
        END IF;
        IF settled_month = k.month THEN
            k.spent_month_micros := k.spent_month_micros + d.cost_micros;
        END IF;
    END LOOP;
    RETURN k;
END
$$;
"""

# Takes the reservation as JSON: what a gateway of a later release adds needs no new function. All
# of the request's subjects are locked, in one order, before any is looked at; the first row that
# the loop gets comes when all four are.
ADMIT = """
CREATE FUNCTION gateway.admit(of_tenant uuid, request jsonb, lease interval) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    subjects text[] := ARRAY['tenant', 'model', 'member', 'key'];
    ids text[] := ARRAY['', coalesce(request->>'model_name', ''),
        coalesce(request->>'member_id', ''), coalesce(request->>'api_key_id', '')];
    kinds text[] := ARRAY['requests', 'tokens', 'prompt_tokens', 'output_tokens'];
    prompt bigint := (request->>'prompt_tokens')::bigint;
    output bigint := (request->>'max_output_tokens')::bigint;
    hold bigint := (request->>'hold_micros')::bigint;
    wanted bigint[] := ARRAY[1, prompt + output, prompt, output];
    tenant_state text;
    at timestamptz;
    c record;
    k public.limit_counters;
    counters public.limit_counters[] := ARRAY[NULL, NULL, NULL, NULL]::public.limit_counters[];
    settled public.limit_settlements[];
    running bigint[];
    held bigint[];
    allowed bigint[];
    used bigint[];
    is_rated boolean;
    rank integer;
    worst_rank integer := 0;
    wait numeric;
    worst_wait numeric := 0;
    refusal jsonb;
    least_remaining bigint[] := ARRAY[NULL, NULL, NULL, NULL]::bigint[];
    shown jsonb[] := ARRAY[NULL, NULL, NULL, NULL]::jsonb[];
    charged integer := 0;
    i integer;
BEGIN
    -- A reservation that a crash loses does no harm, so its commit does not wait for the disk. And
    -- tables that are nearly empty now are full of dead rows a minute later: only indexes will do.
    PERFORM set_config('synchronous_commit', 'off', true),
        set_config('enable_seqscan', 'off', true);
    SELECT t.state INTO tenant_state FROM public.tenants t WHERE t.id = of_tenant;
    IF tenant_state IS DISTINCT FROM 'active' THEN
        RETURN jsonb_build_object('refusal', jsonb_build_object('reason', 'suspended'));
    END IF;

    FOR c IN
        SELECT s.place::integer AS place,
            ARRAY[l.requests_per_minute, l.tokens_per_minute, l.prompt_tokens_per_minute,
                l.output_tokens_per_minute] AS rates,
            ARRAY[l.daily_budget_micros, l.monthly_budget_micros] AS budgets,
            l.max_concurrent_requests, counter
        FROM unnest(subjects, ids) WITH ORDINALITY s (subject, subject_id, place)
        JOIN public.limits l ON l.tenant_id = of_tenant
            AND l.subject = s.subject AND l.subject_id = s.subject_id
        JOIN public.limit_counters counter ON counter.tenant_id = of_tenant
            AND counter.subject = s.subject AND counter.subject_id = s.subject_id
        ORDER BY s.place FOR UPDATE OF counter
    LOOP
        IF at IS NULL THEN
            at := gateway.clock();
            SELECT ARRAY[
                    count(*) FILTER (WHERE r.expires_at > at),
                    count(*) FILTER (WHERE r.expires_at > at AND r.model_name = ids[2]),
                    count(*) FILTER (WHERE r.expires_at > at AND r.member_id::text = ids[3]),
                    count(*) FILTER (WHERE r.expires_at > at AND r.api_key_id::text = ids[4])],
                ARRAY[
                    coalesce(sum(r.hold_micros), 0),
                    coalesce(sum(r.hold_micros) FILTER (WHERE r.model_name = ids[2]), 0),
                    coalesce(sum(r.hold_micros) FILTER (WHERE r.member_id::text = ids[3]), 0),
                    coalesce(sum(r.hold_micros) FILTER (WHERE r.api_key_id::text = ids[4]), 0)]
                INTO running, held
            FROM public.reservations r WHERE r.tenant_id = of_tenant;
            WITH news AS (
                DELETE FROM public.limit_settlements d
                USING unnest(subjects, ids) s (subject, subject_id)
                WHERE d.tenant_id = of_tenant AND d.subject = s.subject
                    AND d.subject_id = s.subject_id
                RETURNING d AS settlement
            )
            SELECT array_agg(n.settlement) INTO settled FROM news n;
        END IF;

        IF running[c.place] >= c.max_concurrent_requests AND worst_rank = 0 THEN
            worst_rank := 1;
            refusal := jsonb_build_object('reason', 'concurrency', 'subject', subjects[c.place],
                'subject_id', ids[c.place], 'dimension', 'max_concurrent_requests',
                'limit', c.max_concurrent_requests, 'value', running[c.place]);
        END IF;
        allowed := c.rates;
        is_rated := num_nonnulls(VARIADIC allowed) > 0;
        CONTINUE WHEN NOT is_rated AND num_nonnulls(VARIADIC c.budgets) = 0;
        k := gateway.brought_up(c.counter, settled, at);
        counters[c.place] := k;

        IF is_rated THEN
            charged := charged | (1 << (c.place - 1));
            used := ARRAY[k.all_requests, k.all_prompt_tokens + k.all_output_tokens,
                k.all_prompt_tokens, k.all_output_tokens];
            FOR i IN 1 .. 4 LOOP
                CONTINUE WHEN allowed[i] IS NULL;
                IF least_remaining[i] IS NULL OR allowed[i] - used[i] < least_remaining[i] THEN
                    least_remaining[i] := allowed[i] - used[i];
                    shown[i] := jsonb_build_object('kind', kinds[i], 'limit', allowed[i],
                        'used', used[i], 'wanted', wanted[i],
                        'reset_seconds',
                        (c.counter).newest_second + 61 - extract(epoch FROM at));
                END IF;
                CONTINUE WHEN used[i] + wanted[i] <= allowed[i];
                IF i > 1 AND wanted[i] > allowed[i] THEN
                    CONTINUE WHEN worst_rank >= 4;
                    worst_rank := 4;
                    refusal := jsonb_build_object('reason', 'never_fits', 'value', wanted[i]);
                ELSE
                    wait := gateway.window_wait(k, i, used[i] + wanted[i] - allowed[i], at);
                    CONTINUE WHEN worst_wait >= wait;
                    worst_wait := wait;
                    CONTINUE WHEN worst_rank > 1;
                    worst_rank := 1;
                    refusal := jsonb_build_object('reason', 'rate', 'value', used[i]);
                END IF;
                refusal := refusal || jsonb_build_object('subject', subjects[c.place],
                    'subject_id', ids[c.place], 'dimension', kinds[i] || '_per_minute',
                    'limit', allowed[i]);
            END LOOP;
        END IF;

        allowed := c.budgets;
        used := ARRAY[
            CASE WHEN k.day = (at AT TIME ZONE 'UTC')::date THEN k.spent_day_micros ELSE 0 END,
            CASE WHEN k.month = date_trunc('month', at AT TIME ZONE 'UTC')::date
                THEN k.spent_month_micros ELSE 0 END];
        FOR i IN 1 .. 2 LOOP
            CONTINUE WHEN allowed[i] IS NULL OR used[i] + held[c.place] + hold <= allowed[i];
            rank := CASE WHEN hold > allowed[i] THEN 4
                WHEN used[i] + hold > allowed[i] THEN 3 ELSE 2 END;
            CONTINUE WHEN worst_rank >= rank;
            worst_rank := rank;
            refusal := jsonb_build_object(
                'reason', (ARRAY['budget_held', 'budget_gone', 'never_fits'])[rank - 1],
                'subject', subjects[c.place], 'subject_id', ids[c.place],
                'dimension', (ARRAY['daily_budget_micros', 'monthly_budget_micros'])[i],
                'limit', allowed[i],
                'value', CASE rank WHEN 4 THEN hold WHEN 3 THEN used[i]
                    ELSE used[i] + held[c.place] END);
        END LOOP;
    END LOOP;

    FOR place IN 1 .. 4 LOOP
        k := counters[place];
        CONTINUE WHEN k.tenant_id IS NULL;
        IF refusal IS NULL AND charged & (1 << (place - 1)) > 0 THEN
            i := k.newest_second % 61 + 1;
            k.requests[i] := k.requests[i] + 1;
            k.prompt_tokens[i] := k.prompt_tokens[i] + prompt;
            k.output_tokens[i] := k.output_tokens[i] + output;
            k.all_requests := k.all_requests + 1;
            k.all_prompt_tokens := k.all_prompt_tokens + prompt;
            k.all_output_tokens := k.all_output_tokens + output;
        ELSE
            CONTINUE WHEN settled IS NULL;
        END IF;
        UPDATE public.limit_counters u SET
            newest_second = k.newest_second, requests = k.requests,
            prompt_tokens = k.prompt_tokens, output_tokens = k.output_tokens,
            all_requests = k.all_requests, all_prompt_tokens = k.all_prompt_tokens,
            all_output_tokens = k.all_output_tokens,
            day = k.day, spent_day_micros = k.spent_day_micros,
            month = k.month, spent_month_micros = k.spent_month_micros
        WHERE u.tenant_id = of_tenant AND u.subject = subjects[place]
            AND u.subject_id = ids[place];
    END LOOP;
    IF refusal IS NULL THEN
        INSERT INTO public.reservations SELECT r.* FROM jsonb_populate_record(
            NULL::public.reservations, request || jsonb_build_object(
                'tenant_id', of_tenant, 'charged', charged, 'admitted_at', at,
                'created_at', at, 'expires_at', at + lease)) r;
    END IF;
    RETURN jsonb_build_object('admitted_at', at,
        'refusal', refusal || jsonb_build_object(
            'retry_after_seconds', greatest(1, ceil(worst_wait))),
        'windows', array_to_json(array_remove(shown, NULL)));
END
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
    has_spent boolean;
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
    WITH news AS (
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
            OR (budgeted AND cost <> 0)
        RETURNING cost_micros
    )
    SELECT coalesce(bool_or(n.cost_micros <> 0), false) INTO has_spent FROM news n;
    RETURN has_spent AND EXISTS (
        SELECT FROM gateway.budgets_to_tell(of_tenant, subjects, ids, at));
END
$$;
"""

# What was spent in this day and month before a budget asks: what the ledger says. Whoever calls has
# the settlements held up, by the lock that settle() shares.
RECOUNT = """
CREATE FUNCTION gateway.recount_spending(of_tenant uuid, of_subject text, of_id text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    at timestamptz;
    today date;
    this_month date;
    day_micros bigint;
    month_micros bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('limits ' || of_tenant, 0));
    PERFORM 1 FROM public.limit_counters c WHERE c.tenant_id = of_tenant
        AND c.subject = of_subject AND c.subject_id = of_id FOR UPDATE;
    at := gateway.clock();
    today := (at AT TIME ZONE 'UTC')::date;
    this_month := date_trunc('month', at AT TIME ZONE 'UTC')::date;
    SELECT coalesce(sum(l.cost_micros) FILTER (
            WHERE l.created_at >= today::timestamp AT TIME ZONE 'UTC'), 0),
        coalesce(sum(l.cost_micros), 0) INTO day_micros, month_micros
    FROM public.ledger l
    LEFT JOIN public.adapters a ON a.tenant_id = l.tenant_id AND a.id = l.adapter_id
    WHERE l.tenant_id = of_tenant
        AND l.created_at >= this_month::timestamp AT TIME ZONE 'UTC'
        AND CASE of_subject
            WHEN 'tenant' THEN true
            WHEN 'model' THEN coalesce(a.name, l.base_model) = of_id
            WHEN 'member' THEN l.member_id::text = of_id
            ELSE l.api_key_id::text = of_id END;
    UPDATE public.limit_counters c SET
        day = today, spent_day_micros = day_micros,
        month = this_month, spent_month_micros = month_micros
    WHERE c.tenant_id = of_tenant AND c.subject = of_subject AND c.subject_id = of_id;
    UPDATE public.limit_settlements d SET cost_micros = 0
    WHERE d.tenant_id = of_tenant AND d.subject = of_subject AND d.subject_id = of_id;
END
$$;
"""

RIGHTS = """
REVOKE ALL ON FUNCTION
    gateway.window_wait, gateway.brought_up, gateway.admit, gateway.settle,
    gateway.recount_spending FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gateway.admit, gateway.settle, gateway.recount_spending TO loraplex_app;
"""


def upgrade() -> None:
    op.execute("SET LOCAL ROLE loraplex_system")
    op.execute(WINDOW_WAIT + BROUGHT_UP + ADMIT + SETTLE + RECOUNT + RIGHTS)
    op.execute("RESET ROLE")
