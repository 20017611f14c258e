"""Roll-ups of the ledger by minute, hour and day, and what tenants store, by the hour.

A trigger notes each row of the ledger in `ledger_arrivals` until the roll-ups have it. A row that
is committed late is seen late, and cannot be missed: nothing is told from its time or number. Both
together are the ledger at any moment, in one snapshot.

A trigger on `blobs` opens and closes an interval for each blob, by the clock of the moment: a
transaction that waited for another's lock began earlier than it stored. What is billed of them,
like the ledger, is nobody's to change.
"""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

TABLES = """
CREATE INDEX ledger_settled_idx ON ledger (tenant_id, created_at, request_id);
CREATE INDEX ledger_created_at_idx ON ledger USING brin (created_at);

CREATE TABLE ledger_arrivals (
    tenant_id uuid NOT NULL,
    request_id varchar NOT NULL,
    CONSTRAINT ledger_arrivals_pkey PRIMARY KEY (tenant_id, request_id)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

CREATE TABLE usage_rollups (
    tenant_id uuid NOT NULL CONSTRAINT usage_rollups_tenant_id_fkey REFERENCES tenants (id),
    width varchar NOT NULL CONSTRAINT usage_rollups_width_check CHECK (width IN ('1m', '1h', '1d')),
    bucket_start timestamptz NOT NULL,
    api_key_id uuid,
    member_id uuid,
    base_model varchar,
    adapter_id uuid,
    adapter_version integer,
    requests bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cost_micros bigint NOT NULL
);
CREATE UNIQUE INDEX usage_rollups_bucket_idx ON usage_rollups (
    tenant_id, width, bucket_start, api_key_id, member_id, base_model, adapter_id, adapter_version
) NULLS NOT DISTINCT;
CREATE INDEX usage_rollups_bucket_start_idx ON usage_rollups (width, bucket_start);

CREATE TABLE stored_blobs (
    tenant_id uuid NOT NULL CONSTRAINT stored_blobs_tenant_id_fkey REFERENCES tenants (id),
    digest varchar NOT NULL,
    stored_from timestamptz NOT NULL,
    stored_until timestamptz
        CONSTRAINT stored_blobs_stored_until_check CHECK (stored_until >= stored_from),
    size_bytes bigint NOT NULL CONSTRAINT stored_blobs_size_bytes_check CHECK (size_bytes >= 0),
    CONSTRAINT stored_blobs_pkey PRIMARY KEY (tenant_id, digest, stored_from)
);
CREATE UNIQUE INDEX stored_blobs_open_idx ON stored_blobs (tenant_id, digest)
    WHERE stored_until IS NULL;
CREATE INDEX stored_blobs_stored_until_idx ON stored_blobs (stored_until);

CREATE TABLE storage_hours (
    tenant_id uuid NOT NULL CONSTRAINT storage_hours_tenant_id_fkey REFERENCES tenants (id),
    hour_start timestamptz NOT NULL,
    byte_seconds bigint NOT NULL
        CONSTRAINT storage_hours_byte_seconds_check CHECK (byte_seconds >= 0),
    price_id uuid NOT NULL,
    cost_micros bigint NOT NULL
        CONSTRAINT storage_hours_cost_micros_check CHECK (cost_micros >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT storage_hours_pkey PRIMARY KEY (tenant_id, hour_start)
);
CREATE INDEX storage_hours_hour_start_idx ON storage_hours (hour_start);

CREATE TABLE billed_storage (
    billed_until timestamptz NOT NULL CONSTRAINT billed_storage_pkey PRIMARY KEY
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
TENANT_TABLES = ("ledger_arrivals", "usage_rollups", "stored_blobs", "storage_hours")

GRANTS = """
GRANT SELECT, INSERT ON ledger_arrivals, stored_blobs TO loraplex_app;
GRANT SELECT ON usage_rollups, storage_hours TO loraplex_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON
    ledger_arrivals, usage_rollups, billed_storage TO loraplex_system;
GRANT SELECT, INSERT ON stored_blobs, storage_hours TO loraplex_system;
GRANT UPDATE (stored_until) ON stored_blobs TO loraplex_system;
GRANT SELECT ON
    ledger_arrivals, usage_rollups, stored_blobs, storage_hours, billed_storage
    TO loraplex_readonly;
"""

TRIGGERS = """
CREATE FUNCTION note_arrival() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO public.ledger_arrivals (tenant_id, request_id)
    VALUES (NEW.tenant_id, NEW.request_id);
    RETURN NULL;
END
$$;
CREATE TRIGGER note_arrival AFTER INSERT ON ledger
    FOR EACH ROW EXECUTE FUNCTION note_arrival();

CREATE FUNCTION begin_storing() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO public.stored_blobs (tenant_id, digest, stored_from, size_bytes)
    VALUES (NEW.tenant_id, NEW.digest, clock_timestamp(), NEW.size_bytes);
    RETURN NULL;
END
$$;
CREATE TRIGGER begin_storing AFTER INSERT ON blobs
    FOR EACH ROW EXECUTE FUNCTION begin_storing();

CREATE FUNCTION end_storing() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE public.stored_blobs SET stored_until = clock_timestamp()
    WHERE tenant_id = OLD.tenant_id AND digest = OLD.digest AND stored_until IS NULL;
    RETURN NULL;
END
$$;
CREATE TRIGGER end_storing AFTER DELETE ON blobs
    FOR EACH ROW EXECUTE FUNCTION end_storing();
"""

# Storage is metered from this migration on; of requests there is the whole ledger.
BEGINNING = """
INSERT INTO ledger_arrivals (tenant_id, request_id) SELECT tenant_id, request_id FROM ledger;
INSERT INTO stored_blobs (tenant_id, digest, stored_from, size_bytes)
SELECT tenant_id, digest, clock_timestamp(), size_bytes FROM blobs;
INSERT INTO billed_storage (billed_until) VALUES (date_trunc('hour', clock_timestamp(), 'UTC'));
"""


def upgrade() -> None:
    op.execute(TABLES)
    for table in TENANT_TABLES:
        op.execute(ROW_SECURITY.format(table=table))
    op.execute(GRANTS)
    # First the triggers, whose locks keep everybody else's rows out until this is committed.
    op.execute(TRIGGERS)
    op.execute(BEGINNING)
