"""Tenants, keys, adapters, reservations, ledger, outbox and workers; roles' grants; row security.

The DDL stands here in full and imports none of the application's models: they move on, a migration
that has run does not. Every later migration that adds a table grants it and, when it has a
tenant_id, calls for the same row security; a test walks the catalogue and fails otherwise.
"""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE tenants (
    id uuid NOT NULL CONSTRAINT tenants_pkey PRIMARY KEY,
    name varchar NOT NULL CONSTRAINT tenants_name_key UNIQUE
        CONSTRAINT tenants_name_check CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    namespace varchar NOT NULL CONSTRAINT tenants_namespace_key UNIQUE,
    state varchar NOT NULL CONSTRAINT tenants_state_check CHECK (state IN ('active', 'suspended')),
    max_concurrent_requests integer NOT NULL
        CONSTRAINT tenants_max_concurrent_requests_check CHECK (max_concurrent_requests >= 0),
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
    id uuid NOT NULL CONSTRAINT api_keys_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT api_keys_tenant_id_fkey REFERENCES tenants (id),
    name varchar NOT NULL,
    label varchar NOT NULL,
    key_hash bytea NOT NULL CONSTRAINT api_keys_key_hash_key UNIQUE,
    expires_at timestamptz,
    revoked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT api_keys_tenant_id_id_key UNIQUE (tenant_id, id)
);

CREATE TABLE operator_keys (
    id uuid NOT NULL CONSTRAINT operator_keys_pkey PRIMARY KEY,
    name varchar NOT NULL,
    label varchar NOT NULL,
    key_hash bytea NOT NULL CONSTRAINT operator_keys_key_hash_key UNIQUE,
    expires_at timestamptz,
    revoked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE web_sessions (
    token_hash bytea NOT NULL CONSTRAINT web_sessions_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL,
    api_key_id uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT web_sessions_tenant_id_api_key_id_fkey
        FOREIGN KEY (tenant_id, api_key_id) REFERENCES api_keys (tenant_id, id)
);

CREATE TABLE operator_sessions (
    token_hash bytea NOT NULL CONSTRAINT operator_sessions_pkey PRIMARY KEY,
    operator_key_id uuid NOT NULL
        CONSTRAINT operator_sessions_operator_key_id_fkey REFERENCES operator_keys (id),
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE auth_failures (
    address varchar NOT NULL,
    window_start timestamptz NOT NULL,
    failures integer NOT NULL,
    CONSTRAINT auth_failures_pkey PRIMARY KEY (address, window_start)
);

CREATE TABLE base_models (
    id uuid NOT NULL CONSTRAINT base_models_pkey PRIMARY KEY,
    name varchar NOT NULL CONSTRAINT base_models_name_key UNIQUE,
    digest varchar NOT NULL,
    module_table jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE adapters (
    id uuid NOT NULL CONSTRAINT adapters_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT adapters_tenant_id_fkey REFERENCES tenants (id),
    name varchar NOT NULL CONSTRAINT adapters_name_check CHECK (name !~ '[/:@]'),
    base_model_id uuid NOT NULL
        CONSTRAINT adapters_base_model_id_fkey REFERENCES base_models (id),
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT adapters_tenant_id_id_key UNIQUE (tenant_id, id),
    CONSTRAINT adapters_tenant_id_name_key UNIQUE (tenant_id, name)
);

CREATE TABLE adapter_versions (
    id uuid NOT NULL CONSTRAINT adapter_versions_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL,
    adapter_id uuid NOT NULL,
    number integer NOT NULL CONSTRAINT adapter_versions_number_check CHECK (number > 0),
    digest varchar NOT NULL,
    base_digest varchar NOT NULL,
    status varchar NOT NULL CONSTRAINT adapter_versions_status_check
        CHECK (status IN ('uploaded', 'validating', 'ready', 'rejected')),
    reasons jsonb NOT NULL,
    config_digest varchar NOT NULL,
    weights_digest varchar NOT NULL,
    size_bytes bigint NOT NULL,
    spec jsonb,
    max_rank integer,
    deadline_at timestamptz NOT NULL,
    attempts integer NOT NULL,
    last_error varchar,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT adapter_versions_tenant_id_id_key UNIQUE (tenant_id, id),
    CONSTRAINT adapter_versions_tenant_id_adapter_id_number_key
        UNIQUE (tenant_id, adapter_id, number),
    CONSTRAINT adapter_versions_tenant_id_adapter_id_digest_key
        UNIQUE (tenant_id, adapter_id, digest),
    CONSTRAINT adapter_versions_tenant_id_adapter_id_fkey
        FOREIGN KEY (tenant_id, adapter_id) REFERENCES adapters (tenant_id, id)
);

CREATE TABLE reservations (
    tenant_id uuid NOT NULL CONSTRAINT reservations_tenant_id_fkey REFERENCES tenants (id),
    request_id varchar NOT NULL,
    gateway_id varchar NOT NULL,
    api_key_id uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT reservations_pkey PRIMARY KEY (tenant_id, request_id),
    CONSTRAINT reservations_tenant_id_api_key_id_fkey
        FOREIGN KEY (tenant_id, api_key_id) REFERENCES api_keys (tenant_id, id)
);
CREATE INDEX reservations_expires_at_idx ON reservations (expires_at);

CREATE TABLE ledger (
    tenant_id uuid NOT NULL CONSTRAINT ledger_tenant_id_fkey REFERENCES tenants (id),
    request_id varchar NOT NULL,
    api_key_id uuid NOT NULL,
    model varchar NOT NULL,
    adapter_digest varchar,
    prompt_tokens integer NOT NULL CONSTRAINT ledger_prompt_tokens_check CHECK (prompt_tokens >= 0),
    cached_tokens integer NOT NULL CONSTRAINT ledger_cached_tokens_check CHECK (cached_tokens >= 0),
    output_tokens integer NOT NULL CONSTRAINT ledger_output_tokens_check CHECK (output_tokens >= 0),
    outcome varchar NOT NULL,
    admitted_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ledger_pkey PRIMARY KEY (tenant_id, request_id),
    CONSTRAINT ledger_tenant_id_api_key_id_fkey
        FOREIGN KEY (tenant_id, api_key_id) REFERENCES api_keys (tenant_id, id)
);

CREATE TABLE outbox (
    id bigint GENERATED BY DEFAULT AS IDENTITY CONSTRAINT outbox_pkey PRIMARY KEY,
    task varchar NOT NULL,
    arguments jsonb NOT NULL,
    published_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX outbox_unpublished_idx ON outbox (id) WHERE published_at IS NULL;

CREATE TABLE workers (
    worker_id varchar NOT NULL CONSTRAINT workers_pkey PRIMARY KEY,
    incarnation varchar NOT NULL,
    pool varchar NOT NULL,
    role varchar NOT NULL CONSTRAINT workers_role_check
        CHECK (role IN ('unified', 'prefill', 'decode')),
    base_name varchar NOT NULL,
    registration jsonb NOT NULL,
    lease_expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
"""

TENANT_TABLES = {
    "tenants": "id",
    "api_keys": "tenant_id",
    "web_sessions": "tenant_id",
    "adapters": "tenant_id",
    "adapter_versions": "tenant_id",
    "reservations": "tenant_id",
    "ledger": "tenant_id",
}
"""Tables whose rows belong to a tenant, and the column that says to which."""

# After a transaction that set it, the setting is '' on the pooled connection, and ''::uuid raises.
ROW_SECURITY = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON {table} TO loraplex_app
    USING ({column} = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid)
    WITH CHECK ({column} = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid);
CREATE POLICY reader_sees_all ON {table} FOR SELECT TO loraplex_readonly USING (true);
"""

GRANTS = """
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO loraplex_app, loraplex_system, loraplex_readonly;
GRANT SELECT ON alembic_version TO loraplex_app, loraplex_system, loraplex_readonly;

GRANT SELECT ON tenants, base_models, workers TO loraplex_app;
GRANT SELECT, INSERT, UPDATE ON adapters TO loraplex_app;
GRANT SELECT, INSERT ON adapter_versions, ledger TO loraplex_app;
GRANT UPDATE (status, reasons, deadline_at) ON adapter_versions TO loraplex_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON reservations TO loraplex_app;
GRANT SELECT, INSERT, UPDATE ON auth_failures TO loraplex_app;
GRANT INSERT ON outbox TO loraplex_app;

GRANT SELECT, INSERT, UPDATE, DELETE ON
    tenants, api_keys, operator_keys, web_sessions, operator_sessions, auth_failures,
    base_models, adapters, adapter_versions, reservations, outbox, workers
    TO loraplex_system;
GRANT SELECT, INSERT ON ledger TO loraplex_system;

GRANT SELECT ON
    tenants, auth_failures, base_models, adapters, adapter_versions, reservations, ledger,
    outbox, workers
    TO loraplex_readonly;
GRANT SELECT (id, tenant_id, name, label, expires_at, revoked_at, created_at)
    ON api_keys TO loraplex_readonly;
GRANT SELECT (id, name, label, expires_at, revoked_at, created_at)
    ON operator_keys TO loraplex_readonly;
GRANT SELECT (tenant_id, api_key_id, expires_at, created_at)
    ON web_sessions TO loraplex_readonly;
GRANT SELECT (operator_key_id, expires_at, created_at)
    ON operator_sessions TO loraplex_readonly;
"""

PRINCIPAL = """
    kind text, key_id uuid, key_name text,
    tenant_id uuid, tenant_name text, namespace text, tenant_state text,
    max_concurrent_requests integer
"""

# What a gateway must do before it knows a tenant, or for all its tenants at once. The functions
# are system's and pass row security; each takes a proof (a hash of a secret, a gateway's own
# random id) and touches the rows that the proof names. Every name in them is qualified.
GATEWAY_FUNCTIONS = f"""
CREATE VIEW gateway.live_keys AS
    SELECT k.key_hash, 'tenant' AS kind, k.id AS key_id, k.name AS key_name,
           t.id AS tenant_id, t.name AS tenant_name, t.namespace, t.state AS tenant_state,
           t.max_concurrent_requests, k.expires_at
    FROM public.api_keys k JOIN public.tenants t ON t.id = k.tenant_id
    WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
    UNION ALL
    SELECT k.key_hash, 'operator', k.id, k.name, NULL, NULL, NULL, NULL, NULL, k.expires_at
    FROM public.operator_keys k
    WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now());

CREATE FUNCTION gateway.find_key(candidate_hashes bytea[]) RETURNS TABLE ({PRINCIPAL})
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.kind, k.key_id, k.key_name, k.tenant_id, k.tenant_name, k.namespace, k.tenant_state,
           k.max_concurrent_requests
    FROM gateway.live_keys k WHERE k.key_hash = ANY (candidate_hashes)
$$;

CREATE FUNCTION gateway.find_session(candidate_hashes bytea[]) RETURNS TABLE ({PRINCIPAL})
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.kind, k.key_id, k.key_name, k.tenant_id, k.tenant_name, k.namespace, k.tenant_state,
           k.max_concurrent_requests
    FROM (
        SELECT 'tenant' AS kind, w.api_key_id AS key_id FROM public.web_sessions w
        WHERE w.token_hash = ANY (candidate_hashes) AND w.expires_at > now()
        UNION ALL
        SELECT 'operator', o.operator_key_id FROM public.operator_sessions o
        WHERE o.token_hash = ANY (candidate_hashes) AND o.expires_at > now()
    ) s JOIN gateway.live_keys k ON k.kind = s.kind AND k.key_id = s.key_id
$$;

CREATE FUNCTION gateway.open_session(
    candidate_hashes bytea[], new_token_hash bytea, lifetime interval
) RETURNS TABLE ({PRINCIPAL})
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH found AS (
        SELECT * FROM gateway.live_keys k WHERE k.key_hash = ANY (candidate_hashes)
    ), of_tenant AS (
        INSERT INTO public.web_sessions (token_hash, tenant_id, api_key_id, expires_at)
        SELECT new_token_hash, f.tenant_id, f.key_id, least(now() + lifetime, f.expires_at)
        FROM found f WHERE f.kind = 'tenant'
    ), of_operator AS (
        INSERT INTO public.operator_sessions (token_hash, operator_key_id, expires_at)
        SELECT new_token_hash, f.key_id, least(now() + lifetime, f.expires_at)
        FROM found f WHERE f.kind = 'operator'
    )
    SELECT f.kind, f.key_id, f.key_name, f.tenant_id, f.tenant_name, f.namespace, f.tenant_state,
           f.max_concurrent_requests
    FROM found f
$$;

CREATE FUNCTION gateway.close_session(candidate_hashes bytea[]) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM public.web_sessions w WHERE w.token_hash = ANY (candidate_hashes);
    DELETE FROM public.operator_sessions o WHERE o.token_hash = ANY (candidate_hashes);
$$;

CREATE FUNCTION gateway.renew_reservations(
    holder text, held_requests text[], lease interval
) RETURNS SETOF text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE public.reservations r SET expires_at = clock_timestamp() + lease
    WHERE r.gateway_id = holder AND r.request_id = ANY (held_requests)
    RETURNING r.request_id
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA gateway FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gateway TO loraplex_app;
GRANT USAGE ON SCHEMA gateway TO loraplex_app;
"""

OUTBOX_NOTIFICATION = """
CREATE FUNCTION notify_outbox() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_notify('loraplex_outbox', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER notify_outbox AFTER INSERT ON outbox
    FOR EACH STATEMENT EXECUTE FUNCTION notify_outbox();
"""


def upgrade() -> None:
    op.execute(TABLES)
    for table, column in TENANT_TABLES.items():
        op.execute(ROW_SECURITY.format(table=table, column=column))
    op.execute(GRANTS)
    op.execute(OUTBOX_NOTIFICATION)
    op.execute("CREATE SCHEMA gateway AUTHORIZATION loraplex_system")
    op.execute("SET LOCAL ROLE loraplex_system")
    op.execute(GATEWAY_FUNCTIONS)
    op.execute("RESET ROLE")
