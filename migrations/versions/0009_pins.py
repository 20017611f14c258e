"""Pins of adapters, and what the workers of a base are to keep near.

`wanted_adapters` is made anew from the pins and the ledger again and again: it holds nothing that
would be missed. It names tenants by their namespaces and holds presigned URLs, so gateways, which
speak for tenants, cannot read it.
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

TABLES = """
ALTER TABLE tenants
    ADD COLUMN max_pinned_adapters integer NOT NULL DEFAULT 4
        CONSTRAINT tenants_max_pinned_adapters_check CHECK (max_pinned_adapters >= 0);
ALTER TABLE tenants ALTER COLUMN max_pinned_adapters DROP DEFAULT;

CREATE TABLE adapter_pins (
    tenant_id uuid NOT NULL,
    adapter_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT adapter_pins_pkey PRIMARY KEY (tenant_id, adapter_id),
    CONSTRAINT adapter_pins_tenant_id_adapter_id_fkey
        FOREIGN KEY (tenant_id, adapter_id) REFERENCES adapters (tenant_id, id) ON DELETE CASCADE
);

CREATE TABLE wanted_adapters (
    base_name varchar NOT NULL,
    namespace varchar NOT NULL,
    digest varchar NOT NULL,
    is_pinned boolean NOT NULL,
    place integer NOT NULL,
    reference jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT wanted_adapters_pkey PRIMARY KEY (base_name, namespace, digest)
);
CREATE INDEX ledger_newest_idx ON ledger (admitted_at) WHERE adapter_digest IS NOT NULL;
"""

ROW_SECURITY = """
ALTER TABLE adapter_pins ENABLE ROW LEVEL SECURITY;
ALTER TABLE adapter_pins FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON adapter_pins TO loraplex_app
    USING (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid);
CREATE POLICY reader_sees_all ON adapter_pins FOR SELECT TO loraplex_readonly USING (true);
"""

GRANTS = """
GRANT SELECT, INSERT, DELETE ON adapter_pins TO loraplex_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON adapter_pins, wanted_adapters TO loraplex_system;
GRANT SELECT ON adapter_pins TO loraplex_readonly;
GRANT SELECT (base_name, namespace, digest, is_pinned, place, created_at)
    ON wanted_adapters TO loraplex_readonly;
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(ROW_SECURITY)
    op.execute(GRANTS)
