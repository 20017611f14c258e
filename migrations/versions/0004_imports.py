"""Imports of adapters from where their owners keep them."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE imports (
    id uuid NOT NULL CONSTRAINT imports_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT imports_tenant_id_fkey REFERENCES tenants (id),
    adapter_name varchar NOT NULL,
    base_name varchar NOT NULL,
    source jsonb NOT NULL,
    sealed_source bytea,
    status varchar NOT NULL CONSTRAINT imports_status_check
        CHECK (status IN ('queued', 'fetching', 'completed', 'failed')),
    fetched_bytes bigint NOT NULL,
    deadline_at timestamptz NOT NULL,
    attempts integer NOT NULL,
    last_error varchar,
    error jsonb,
    version integer,
    ended_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT imports_tenant_id_id_key UNIQUE (tenant_id, id),
    CONSTRAINT imports_sealed_source_check
        CHECK ((sealed_source IS NULL) = (status IN ('completed', 'failed')))
);
CREATE INDEX imports_newest_idx ON imports (tenant_id, created_at DESC, id DESC);
CREATE INDEX imports_open_idx ON imports (deadline_at) WHERE status IN ('queued', 'fetching');
"""

ROW_SECURITY = """
ALTER TABLE imports ENABLE ROW LEVEL SECURITY;
ALTER TABLE imports FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON imports TO loraplex_app
    USING (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid);
CREATE POLICY reader_sees_all ON imports FOR SELECT TO loraplex_readonly USING (true);
"""

# A gateway seals credentials and never opens them.
SHOWN = """
    id, tenant_id, adapter_name, base_name, source, status, fetched_bytes, deadline_at, attempts,
    last_error, error, version, ended_at, created_at
"""
GRANTS = f"""
GRANT INSERT ON imports TO loraplex_app;
GRANT SELECT ({SHOWN}) ON imports TO loraplex_app, loraplex_readonly;
GRANT SELECT, INSERT, UPDATE, DELETE ON imports TO loraplex_system;
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(ROW_SECURITY)
    op.execute(GRANTS)
