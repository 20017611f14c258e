"""Webhooks: endpoints, events, deliveries and their attempts."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE webhook_endpoints (
    id uuid NOT NULL CONSTRAINT webhook_endpoints_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT webhook_endpoints_tenant_id_fkey REFERENCES tenants (id),
    url varchar NOT NULL,
    description varchar NOT NULL,
    event_types varchar[] NOT NULL,
    is_enabled boolean NOT NULL,
    disabled_reason varchar CONSTRAINT webhook_endpoints_disabled_reason_check
        CHECK (disabled_reason IN ('tenant', 'failures')),
    disabled_at timestamptz,
    sealed_secret bytea NOT NULL,
    previous_sealed_secret bytea,
    previous_secret_expires_at timestamptz,
    consecutive_failures integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT webhook_endpoints_tenant_id_id_key UNIQUE (tenant_id, id),
    CONSTRAINT webhook_endpoints_state_check
        CHECK (is_enabled = (disabled_reason IS NULL) AND is_enabled = (disabled_at IS NULL)),
    CONSTRAINT webhook_endpoints_previous_secret_check
        CHECK ((previous_sealed_secret IS NULL) = (previous_secret_expires_at IS NULL))
);

CREATE TABLE webhook_events (
    id uuid NOT NULL CONSTRAINT webhook_events_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT webhook_events_tenant_id_fkey REFERENCES tenants (id),
    type varchar NOT NULL,
    data jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT webhook_events_tenant_id_id_key UNIQUE (tenant_id, id)
);
CREATE INDEX webhook_events_created_at_idx ON webhook_events (created_at);

CREATE TABLE webhook_deliveries (
    id uuid NOT NULL CONSTRAINT webhook_deliveries_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    event_id uuid NOT NULL,
    status varchar NOT NULL CONSTRAINT webhook_deliveries_status_check
        CHECK (status IN ('pending', 'delivered', 'failed', 'cancelled')),
    attempts integer NOT NULL,
    next_attempt_at timestamptz NOT NULL,
    finished_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT webhook_deliveries_tenant_id_id_key UNIQUE (tenant_id, id),
    CONSTRAINT webhook_deliveries_tenant_id_endpoint_id_event_id_key
        UNIQUE (tenant_id, endpoint_id, event_id),
    CONSTRAINT webhook_deliveries_tenant_id_endpoint_id_fkey
        FOREIGN KEY (tenant_id, endpoint_id) REFERENCES webhook_endpoints (tenant_id, id)
        ON DELETE CASCADE,
    CONSTRAINT webhook_deliveries_tenant_id_event_id_fkey
        FOREIGN KEY (tenant_id, event_id) REFERENCES webhook_events (tenant_id, id),
    CONSTRAINT webhook_deliveries_finished_check
        CHECK ((status = 'pending') = (finished_at IS NULL))
);
CREATE INDEX webhook_deliveries_due_idx ON webhook_deliveries (next_attempt_at)
    WHERE status = 'pending';
CREATE INDEX webhook_deliveries_newest_idx
    ON webhook_deliveries (tenant_id, endpoint_id, created_at DESC, id DESC);
CREATE INDEX webhook_deliveries_event_idx ON webhook_deliveries (tenant_id, event_id);

CREATE TABLE webhook_attempts (
    tenant_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    number integer NOT NULL,
    started_at timestamptz NOT NULL,
    milliseconds integer NOT NULL,
    status_code integer,
    response varchar,
    error varchar,
    CONSTRAINT webhook_attempts_pkey PRIMARY KEY (tenant_id, delivery_id, number),
    CONSTRAINT webhook_attempts_tenant_id_delivery_id_fkey
        FOREIGN KEY (tenant_id, delivery_id) REFERENCES webhook_deliveries (tenant_id, id)
        ON DELETE CASCADE
);
"""

TENANT_TABLES = ("webhook_endpoints", "webhook_events", "webhook_deliveries", "webhook_attempts")

ROW_SECURITY = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON {table} TO loraplex_app
    USING (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid);
CREATE POLICY reader_sees_all ON {table} FOR SELECT TO loraplex_readonly USING (true);
"""

# Attempts are the dispatcher's word alone: a gateway reads them, and may only ask for another.
GRANTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_endpoints TO loraplex_app;
GRANT SELECT, INSERT ON webhook_events TO loraplex_app;
GRANT SELECT, INSERT, UPDATE ON webhook_deliveries TO loraplex_app;
GRANT SELECT ON webhook_attempts TO loraplex_app;

GRANT SELECT, INSERT, UPDATE, DELETE ON
    webhook_endpoints, webhook_events, webhook_deliveries, webhook_attempts
    TO loraplex_system;

GRANT SELECT ON webhook_events, webhook_deliveries, webhook_attempts TO loraplex_readonly;
GRANT SELECT (
    id, tenant_id, url, description, event_types, is_enabled, disabled_reason, disabled_at,
    previous_secret_expires_at, consecutive_failures, created_at
) ON webhook_endpoints TO loraplex_readonly;
"""

NOTIFICATION = """
CREATE FUNCTION notify_webhooks() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_notify('loraplex_webhooks', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER notify_webhooks AFTER INSERT ON webhook_deliveries
    FOR EACH ROW EXECUTE FUNCTION notify_webhooks();
"""


def upgrade() -> None:
    op.execute(TABLES)
    for table in TENANT_TABLES:
        op.execute(ROW_SECURITY.format(table=table))
    op.execute(GRANTS)
    op.execute(NOTIFICATION)
