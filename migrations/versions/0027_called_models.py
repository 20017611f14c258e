"""By which name a call counts in a model's budget: the one it was called by, not today's.

The ledger has what the client asked for. An adapter's name stays in it whatever becomes of the
adapter: one that is purged counted as its base when a budget was set, and a call whose reservation
was lost in no model's budget at all where its model was a base. `settle` and `recount_spending` are
those of 0020 but for that, and `settle` asks what there is to tell of budgets only when one is near
a mark: that took a fifth of its time.
"""

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

# `[tenant/]adapter[:alias or :vN, or @digest]`, as `versions/names.py` reads it.
CALLED_MODEL = """
CREATE FUNCTION gateway.called_model(asked_for text, adapter_id uuid, base_model text)
RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN adapter_id IS NULL THEN base_model
        ELSE substring(asked_for FROM '^(?:[^/:@]+/)?([^/:@]+)') END
$$;
REVOKE ALL ON FUNCTION gateway.called_model FROM PUBLIC;
"""

SETTLE = """
CREATE OR REPLACE FUNCTION gateway.settle(of_tenant uuid, entry jsonb) RETURNS boolean
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
    may_have_news boolean;
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
        held.model_name := gateway.called_model(
            entry->>'model', (entry->>'adapter_id')::uuid, entry->>'base_model');
    END IF;
    ids := ARRAY['', held.model_name, entry->>'member_id', entry->>'api_key_id'];
    WITH mine AS MATERIALIZED (
        SELECT l.subject, l.subject_id, was_charged, budgeted,
            -- What is not taken in yet may be of a day that is over: it is the most that is spent.
            budgeted AND (
                100 * (coalesce(c.spent_day_micros, 0) + waiting.cost_micros + cost)
                    >= l.daily_budget_micros * l.soft_budget_percent
                OR 100 * (coalesce(c.spent_month_micros, 0) + waiting.cost_micros + cost)
                    >= l.monthly_budget_micros * l.soft_budget_percent) AS is_near_a_mark
        FROM unnest(subjects, ids) WITH ORDINALITY s (subject, subject_id, place)
        JOIN public.limits l ON l.tenant_id = of_tenant
            AND l.subject = s.subject AND l.subject_id = s.subject_id
        LEFT JOIN public.limit_counters c ON c.tenant_id = of_tenant
            AND c.subject = s.subject AND c.subject_id = s.subject_id
        CROSS JOIN LATERAL (
            SELECT coalesce(held.charged, 0) & (1 << (s.place - 1)::integer) > 0 AS was_charged,
                num_nonnulls(l.daily_budget_micros, l.monthly_budget_micros) > 0 AS budgeted
        ) counted
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(d.cost_micros), 0)::bigint AS cost_micros
            FROM public.limit_settlements d
            WHERE budgeted AND d.tenant_id = of_tenant
                AND d.subject = s.subject AND d.subject_id = s.subject_id
        ) waiting
    ), news AS (
        INSERT INTO public.limit_settlements
        SELECT of_tenant, m.subject, m.subject_id, entry->>'request_id',
            coalesce(floor(extract(epoch FROM held.admitted_at))::bigint, 0),
            CASE WHEN m.was_charged THEN unused_prompt ELSE 0 END,
            CASE WHEN m.was_charged THEN unused_output ELSE 0 END,
            CASE WHEN m.budgeted THEN cost ELSE 0 END, at
        FROM mine m
        WHERE (m.was_charged AND (unused_prompt <> 0 OR unused_output <> 0))
            OR (m.budgeted AND cost <> 0)
    )
    SELECT cost <> 0 AND coalesce(bool_or(m.is_near_a_mark), false) INTO may_have_news FROM mine m;
    RETURN may_have_news AND EXISTS (
        SELECT FROM gateway.budgets_to_tell(of_tenant, subjects, ids, at));
END
$$;
"""

RECOUNT = """
CREATE OR REPLACE FUNCTION gateway.recount_spending(
    of_tenant uuid, of_subject text, of_id text
) RETURNS void
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
    WHERE l.tenant_id = of_tenant
        AND l.created_at >= this_month::timestamp AT TIME ZONE 'UTC'
        AND CASE of_subject
            WHEN 'tenant' THEN true
            WHEN 'model' THEN gateway.called_model(l.model, l.adapter_id, l.base_model) = of_id
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


def upgrade() -> None:
    op.execute("SET LOCAL ROLE loraplex_system")
    op.execute(CALLED_MODEL + SETTLE + RECOUNT)
    op.execute("RESET ROLE")
