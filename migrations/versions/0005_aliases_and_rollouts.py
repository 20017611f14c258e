"""Aliases with the history of their moves, rollouts, and which version a ledger row was served by.

An alias's row outlives its removal (`version` is then NULL), so that its generations only grow and
nobody's If-Match fits a later life of the same name.
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE aliases (
    tenant_id uuid NOT NULL,
    adapter_id uuid NOT NULL,
    name varchar NOT NULL CONSTRAINT aliases_name_check
        CHECK (name !~ '[/:@]' AND name !~ '^v[0-9]+$' AND name <> 'latest'),
    version integer,
    generation bigint NOT NULL CONSTRAINT aliases_generation_check CHECK (generation > 0),
    moved_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT aliases_pkey PRIMARY KEY (tenant_id, adapter_id, name),
    CONSTRAINT aliases_tenant_id_adapter_id_fkey
        FOREIGN KEY (tenant_id, adapter_id) REFERENCES adapters (tenant_id, id),
    CONSTRAINT aliases_tenant_id_adapter_id_version_fkey
        FOREIGN KEY (tenant_id, adapter_id, version)
        REFERENCES adapter_versions (tenant_id, adapter_id, number)
);

CREATE TABLE alias_moves (
    tenant_id uuid NOT NULL,
    adapter_id uuid NOT NULL,
    alias varchar NOT NULL,
    generation bigint NOT NULL,
    kind varchar NOT NULL CONSTRAINT alias_moves_kind_check
        CHECK (kind IN ('set', 'removed', 'rolled_back', 'promoted')),
    from_version integer,
    to_version integer,
    api_key_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT alias_moves_pkey PRIMARY KEY (tenant_id, adapter_id, alias, generation),
    CONSTRAINT alias_moves_tenant_id_adapter_id_alias_fkey
        FOREIGN KEY (tenant_id, adapter_id, alias) REFERENCES aliases (tenant_id, adapter_id, name),
    CONSTRAINT alias_moves_tenant_id_api_key_id_fkey
        FOREIGN KEY (tenant_id, api_key_id) REFERENCES api_keys (tenant_id, id)
);

CREATE TABLE rollouts (
    id uuid NOT NULL CONSTRAINT rollouts_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL,
    adapter_id uuid NOT NULL,
    alias varchar NOT NULL,
    stable_version integer NOT NULL,
    candidate_version integer NOT NULL,
    weight integer NOT NULL CONSTRAINT rollouts_weight_check CHECK (weight BETWEEN 0 AND 100),
    status varchar NOT NULL CONSTRAINT rollouts_status_check
        CHECK (status IN ('running', 'paused', 'promoted', 'rolled_back')),
    error_rate_limit integer NOT NULL
        CONSTRAINT rollouts_error_rate_limit_check CHECK (error_rate_limit BETWEEN 0 AND 100),
    window_seconds integer NOT NULL,
    minimum_requests integer NOT NULL,
    observed_requests integer NOT NULL,
    observed_errors integer NOT NULL,
    running_since timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    end_reason varchar,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT rollouts_tenant_id_id_key UNIQUE (tenant_id, id),
    CONSTRAINT rollouts_versions_check CHECK (stable_version <> candidate_version),
    CONSTRAINT rollouts_ended_check
        CHECK ((ended_at IS NULL) = (status IN ('running', 'paused'))),
    CONSTRAINT rollouts_tenant_id_adapter_id_alias_fkey
        FOREIGN KEY (tenant_id, adapter_id, alias) REFERENCES aliases (tenant_id, adapter_id, name)
);
CREATE UNIQUE INDEX rollouts_open_idx ON rollouts (tenant_id, adapter_id, alias)
    WHERE ended_at IS NULL;

ALTER TABLE ledger
    ADD COLUMN adapter_id uuid,
    ADD COLUMN adapter_version integer,
    ADD COLUMN error_code varchar;
CREATE INDEX ledger_adapter_id_idx ON ledger (adapter_id, created_at)
    WHERE adapter_id IS NOT NULL;
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
GRANT SELECT, INSERT, UPDATE ON aliases, rollouts TO loraplex_app;
GRANT SELECT, INSERT ON alias_moves TO loraplex_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON aliases, alias_moves, rollouts TO loraplex_system;
GRANT SELECT ON aliases, alias_moves, rollouts TO loraplex_readonly;
"""


def upgrade() -> None:
    op.execute(TABLES)
    for table in ("aliases", "alias_moves", "rollouts"):
        op.execute(ROW_SECURITY.format(table=table))
    op.execute(GRANTS)
