"""Keys of requests that are done once, with their answers."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE idempotency_keys (
            tenant_id uuid NOT NULL
                CONSTRAINT idempotency_keys_tenant_id_fkey REFERENCES tenants (id),
            key varchar NOT NULL,
            fingerprint bytea NOT NULL,
            claim uuid NOT NULL,
            locked_until timestamptz NOT NULL,
            status_code integer,
            headers jsonb,
            sealed_body bytea,
            expires_at timestamptz NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, key)
        );
        CREATE INDEX idempotency_keys_expires_at_idx ON idempotency_keys (expires_at);

        ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
        ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;
        CREATE POLICY own_tenant ON idempotency_keys TO loraplex_app
            USING (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid)
            WITH CHECK (
                tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid
            );
        CREATE POLICY reader_sees_all ON idempotency_keys
            FOR SELECT TO loraplex_readonly USING (true);

        GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys
            TO loraplex_app, loraplex_system;
        GRANT SELECT (
            tenant_id, key, locked_until, status_code, headers, expires_at, created_at
        ) ON idempotency_keys TO loraplex_readonly;
        """
    )
