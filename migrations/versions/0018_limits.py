"""Limits, and what has been used of them.

One row of `limits` a subject: the tenant, one of its models, members or keys; NULL is no limit. Its
counters lie in a row of their own, which admission locks. Settlements, which wait for the disk,
never touch that row: what they give back lies in `limit_settlements` until the subject's next
admission, which commits without waiting, has the row locked anyway.

What runs and what it holds of a budget is read from `reservations` itself, so that nothing can be
counted and gone.
"""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE limits (
    tenant_id uuid NOT NULL CONSTRAINT limits_tenant_id_fkey REFERENCES tenants (id),
    subject varchar NOT NULL CONSTRAINT limits_subject_check
        CHECK (subject IN ('tenant', 'model', 'member', 'key')),
    subject_id varchar NOT NULL,
    requests_per_minute bigint,
    tokens_per_minute bigint,
    prompt_tokens_per_minute bigint,
    output_tokens_per_minute bigint,
    max_concurrent_requests bigint,
    daily_budget_micros bigint,
    monthly_budget_micros bigint,
    soft_budget_percent integer NOT NULL CONSTRAINT limits_soft_budget_percent_check
        CHECK (soft_budget_percent BETWEEN 1 AND 100),
    max_adapters bigint,
    max_storage_bytes bigint,
    max_open_uploads bigint,
    max_pinned_adapters bigint,
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT limits_pkey PRIMARY KEY (tenant_id, subject, subject_id),
    CONSTRAINT limits_subject_id_check CHECK ((subject = 'tenant') = (subject_id = '')),
    CONSTRAINT limits_tenants_alone_check CHECK (
        subject = 'tenant' OR num_nonnulls(
            max_adapters, max_storage_bytes, max_open_uploads, max_pinned_adapters) = 0),
    CONSTRAINT limits_not_negative_check CHECK (
        least(requests_per_minute, tokens_per_minute, prompt_tokens_per_minute,
              output_tokens_per_minute, max_concurrent_requests, daily_budget_micros,
              monthly_budget_micros, max_adapters, max_storage_bytes, max_open_uploads,
              max_pinned_adapters, 0) = 0)
);

-- A ring holds 61 seconds, since the one that runs is not over: second s lies at s % 61 + 1, and
-- `newest_second` is the last one written. `all_…` are the rings' sums. A row is rewritten whole at
-- each admission: it stays below the 2 KiB from which it would be moved out of line, on pages with
-- room for its successor.
CREATE TABLE limit_counters (
    tenant_id uuid NOT NULL,
    subject varchar NOT NULL,
    subject_id varchar NOT NULL,
    newest_second bigint NOT NULL DEFAULT 0,
    requests bigint[] NOT NULL DEFAULT array_fill(0::bigint, ARRAY[61]),
    prompt_tokens bigint[] NOT NULL DEFAULT array_fill(0::bigint, ARRAY[61]),
    output_tokens bigint[] NOT NULL DEFAULT array_fill(0::bigint, ARRAY[61]),
    all_requests bigint NOT NULL DEFAULT 0,
    all_prompt_tokens bigint NOT NULL DEFAULT 0,
    all_output_tokens bigint NOT NULL DEFAULT 0,
    day date NOT NULL DEFAULT '-infinity',
    spent_day_micros bigint NOT NULL DEFAULT 0,
    month date NOT NULL DEFAULT '-infinity',
    spent_month_micros bigint NOT NULL DEFAULT 0,
    CONSTRAINT limit_counters_pkey PRIMARY KEY (tenant_id, subject, subject_id),
    CONSTRAINT limit_counters_tenant_id_subject_subject_id_fkey
        FOREIGN KEY (tenant_id, subject, subject_id)
        REFERENCES limits (tenant_id, subject, subject_id) ON DELETE CASCADE
) WITH (fillfactor = 25, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

-- Without a reference to `limits`: each settlement would write a lock into that hot row.
CREATE TABLE limit_settlements (
    tenant_id uuid NOT NULL,
    subject varchar NOT NULL,
    subject_id varchar NOT NULL,
    request_id varchar NOT NULL,
    admitted_second bigint NOT NULL,
    unused_prompt_tokens bigint NOT NULL,
    unused_output_tokens bigint NOT NULL,
    cost_micros bigint NOT NULL,
    settled_at timestamptz NOT NULL,
    CONSTRAINT limit_settlements_pkey PRIMARY KEY (tenant_id, subject, subject_id, request_id)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

CREATE TABLE budget_alerts (
    tenant_id uuid NOT NULL,
    subject varchar NOT NULL,
    subject_id varchar NOT NULL,
    period varchar NOT NULL CONSTRAINT budget_alerts_period_check
        CHECK (period IN ('day', 'month')),
    period_start date NOT NULL,
    event varchar NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT budget_alerts_pkey
        PRIMARY KEY (tenant_id, subject, subject_id, period, period_start, event),
    CONSTRAINT budget_alerts_tenant_id_subject_subject_id_fkey
        FOREIGN KEY (tenant_id, subject, subject_id)
        REFERENCES limits (tenant_id, subject, subject_id) ON DELETE CASCADE
);

-- What a ledger row needs, so that it can be written for a gateway that died; and what is held.
-- Gateways of before this migration write none of it.
ALTER TABLE reservations
    ALTER COLUMN api_key_id DROP NOT NULL,
    ADD COLUMN member_id uuid,
    ADD COLUMN model varchar,
    ADD COLUMN model_name varchar,
    ADD COLUMN base_model varchar,
    ADD COLUMN adapter_digest varchar,
    ADD COLUMN adapter_id uuid,
    ADD COLUMN adapter_version integer,
    ADD COLUMN price_id uuid,
    ADD COLUMN prompt_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN max_output_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN hold_micros bigint NOT NULL DEFAULT 0,
    ADD COLUMN charged integer NOT NULL DEFAULT 0,
    ADD COLUMN admitted_at timestamptz NOT NULL DEFAULT now(),
    SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
"""

TENANT_TABLES = ("limits", "limit_counters", "limit_settlements", "budget_alerts")

# After a transaction that set it, the setting is '' on the pooled connection, and ''::uuid raises.
ROW_SECURITY = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON {table} TO loraplex_app
    USING (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid);
CREATE POLICY reader_sees_all ON {table} FOR SELECT TO loraplex_readonly USING (true);
"""

# Counters are the functions' alone. A tenant sets the limits of its keys and members; its own, and
# those of its models, are the operator's.
GRANTS = """
GRANT SELECT, INSERT, UPDATE ON limits TO loraplex_app;
CREATE POLICY of_keys_and_members_alone ON limits AS RESTRICTIVE FOR INSERT TO loraplex_app
    WITH CHECK (subject IN ('key', 'member'));
CREATE POLICY to_keys_and_members_alone ON limits AS RESTRICTIVE FOR UPDATE TO loraplex_app
    USING (subject IN ('key', 'member'));
GRANT SELECT ON limit_counters, limit_settlements TO loraplex_app;
GRANT INSERT (tenant_id, subject, subject_id) ON limit_counters TO loraplex_app;
GRANT SELECT, INSERT ON budget_alerts TO loraplex_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON
    limits, limit_counters, limit_settlements, budget_alerts TO loraplex_system;
GRANT SELECT ON
    limits, limit_counters, limit_settlements, budget_alerts TO loraplex_readonly;
"""

# `tenants` keeps its columns for gateways and commands of before this migration: what they write
# becomes limits, and what limits become they read. The next contraction drops the columns.
TRIGGERS = """
CREATE FUNCTION begin_limits() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO public.limits (
        tenant_id, subject, subject_id, max_concurrent_requests, max_storage_bytes,
        max_open_uploads, max_pinned_adapters, soft_budget_percent)
    VALUES (NEW.id, 'tenant', '', NEW.max_concurrent_requests, NEW.max_storage_bytes,
        NEW.max_open_uploads, NEW.max_pinned_adapters, 80);
    RETURN NULL;
END
$$;
CREATE FUNCTION begin_counting() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO public.limit_counters (tenant_id, subject, subject_id)
    VALUES (NEW.tenant_id, NEW.subject, NEW.subject_id);
    RETURN NULL;
END
$$;
CREATE FUNCTION tell_tenants() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE public.tenants SET
        max_concurrent_requests = least(NEW.max_concurrent_requests, 2147483647),
        max_storage_bytes = least(NEW.max_storage_bytes, 9223372036854775807),
        max_open_uploads = least(NEW.max_open_uploads, 2147483647),
        max_pinned_adapters = least(NEW.max_pinned_adapters, 2147483647)
    WHERE id = NEW.tenant_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER begin_counting AFTER INSERT ON limits
    FOR EACH ROW EXECUTE FUNCTION begin_counting();
INSERT INTO limits (
    tenant_id, subject, subject_id, max_concurrent_requests, max_storage_bytes, max_open_uploads,
    max_pinned_adapters, soft_budget_percent)
SELECT id, 'tenant', '', max_concurrent_requests, max_storage_bytes, max_open_uploads,
    max_pinned_adapters, 80 FROM tenants;
CREATE TRIGGER begin_limits AFTER INSERT ON tenants
    FOR EACH ROW EXECUTE FUNCTION begin_limits();
CREATE TRIGGER tell_tenants
    AFTER UPDATE OF max_concurrent_requests, max_storage_bytes, max_open_uploads,
        max_pinned_adapters ON limits
    FOR EACH ROW WHEN (NEW.subject = 'tenant') EXECUTE FUNCTION tell_tenants();
"""


def upgrade() -> None:
    op.execute(TABLES)
    for table in TENANT_TABLES:
        op.execute(ROW_SECURITY.format(table=table))
    op.execute(GRANTS)
    op.execute(TRIGGERS)
