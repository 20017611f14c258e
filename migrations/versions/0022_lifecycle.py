"""Tenants are suspended with a reason, exported and deleted; what a deletion leaves of a name.

`tenant_exports` and `tenant_deletions` are work with leases, as imports are: `deadline_at` moves
ahead while somebody works, `attempts` fences.
"""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

TABLES = """
ALTER TABLE tenants
    ADD COLUMN display_name varchar NOT NULL DEFAULT '',
    ADD COLUMN state_reason varchar,
    ADD COLUMN state_changed_at timestamptz,
    DROP CONSTRAINT tenants_state_check,
    ADD CONSTRAINT tenants_state_check
        CHECK (state IN ('active', 'suspended', 'deleting', 'deleted'));

CREATE TABLE tenant_exports (
    id uuid NOT NULL CONSTRAINT tenant_exports_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT tenant_exports_tenant_id_fkey REFERENCES tenants (id),
    status varchar NOT NULL CONSTRAINT tenant_exports_status_check
        CHECK (status IN ('queued', 'running', 'completed', 'failed')),
    requested_by varchar NOT NULL,
    size_bytes bigint,
    deadline_at timestamptz NOT NULL,
    attempts integer NOT NULL,
    last_error varchar,
    completed_at timestamptz,
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT tenant_exports_tenant_id_id_key UNIQUE (tenant_id, id)
);
CREATE INDEX tenant_exports_expires_at_idx ON tenant_exports (expires_at);

CREATE TABLE tenant_deletions (
    tenant_id uuid NOT NULL CONSTRAINT tenant_deletions_pkey PRIMARY KEY
        CONSTRAINT tenant_deletions_tenant_id_fkey REFERENCES tenants (id),
    namespace varchar NOT NULL,
    requested_by varchar NOT NULL,
    deadline_at timestamptz NOT NULL,
    attempts integer NOT NULL,
    last_error varchar,
    finished_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE former_tenant_names (
    name_mac bytea NOT NULL CONSTRAINT former_tenant_names_pkey PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now()
);
"""

# After a transaction that set it, the setting is '' on the pooled connection, and ''::uuid raises.
ROW_SECURITY = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON {table} TO loraplex_app
    USING (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid);
CREATE POLICY reader_sees_all ON {table} FOR SELECT TO loraplex_readonly USING (true);
"""

GRANTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON tenant_exports, tenant_deletions TO loraplex_system;
GRANT SELECT, INSERT ON former_tenant_names TO loraplex_system;
GRANT SELECT ON tenant_exports, tenant_deletions TO loraplex_readonly;
GRANT SELECT (created_at) ON former_tenant_names TO loraplex_readonly;
"""

HALTED = """
CREATE FUNCTION gateway.halted_tenants(candidates uuid[])
RETURNS TABLE (tenant_id uuid, tenant_name text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.id, t.name FROM public.tenants t
    WHERE t.id = ANY (candidates) AND t.state <> 'active'
$$;
REVOKE ALL ON FUNCTION gateway.halted_tenants FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gateway.halted_tenants TO loraplex_app;
"""


def upgrade() -> None:
    op.execute(TABLES)
    for table in ("tenant_exports", "tenant_deletions"):
        op.execute(ROW_SECURITY.format(table=table))
    op.execute(GRANTS)
    op.execute("SET LOCAL ROLE loraplex_system")
    op.execute(HALTED)
    op.execute("RESET ROLE")
