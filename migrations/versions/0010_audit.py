"""The audit log: added to by gateways and jobs, changed by nobody, forgotten by one function.

Roles `app` and `system` may insert every column but the id and the time, so that nobody can write
himself into the past. Only the table's owner may delete; `gateway.forget_audit_events` does so for
`system`, and never what is younger than thirty days, whatever it is asked.
"""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE audit_events (
    id uuid NOT NULL DEFAULT gen_random_uuid() CONSTRAINT audit_events_pkey PRIMARY KEY,
    tenant_id uuid,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    action varchar NOT NULL
        CONSTRAINT audit_events_action_check CHECK (action ~ '^[a-z_]+(\\.[a-z_]+)+$'),
    actor_kind varchar NOT NULL CONSTRAINT audit_events_actor_kind_check
        CHECK (actor_kind IN ('key', 'person', 'operator', 'system')),
    actor_id uuid,
    actor_label varchar NOT NULL,
    address varchar,
    request_id varchar,
    target_kind varchar NOT NULL,
    target_id varchar,
    target_name varchar,
    before jsonb,
    after jsonb
);
CREATE INDEX audit_events_tenants_newest_idx ON audit_events (tenant_id, created_at, id);
CREATE INDEX audit_events_newest_idx ON audit_events (created_at, id);

ALTER TABLE audit_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_events FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON audit_events TO loraplex_app
    USING (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid);
CREATE POLICY reader_sees_all ON audit_events FOR SELECT TO loraplex_readonly USING (true);

GRANT SELECT ON audit_events TO loraplex_app, loraplex_system, loraplex_readonly;
GRANT INSERT (
    tenant_id, action, actor_kind, actor_id, actor_label, address, request_id,
    target_kind, target_id, target_name, before, after
) ON audit_events TO loraplex_app, loraplex_system;
"""

RECORD = """
CREATE FUNCTION gateway.record_platform_event(
    action text, actor_kind text, actor_id uuid, actor_label text, address text, request_id text,
    target_kind text, target_id text, target_name text, before jsonb, after jsonb
) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO public.audit_events (
        action, actor_kind, actor_id, actor_label, address, request_id,
        target_kind, target_id, target_name, before, after)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
$$;
REVOKE ALL ON FUNCTION gateway.record_platform_event FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gateway.record_platform_event TO loraplex_app;
"""

# The owner's, who alone may delete. Two sweeps at once take different rows.
FORGET = """
CREATE FUNCTION gateway.forget_audit_events(kept interval, most integer) RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH old AS (
        SELECT e.id FROM public.audit_events e
        WHERE e.created_at < now() - greatest(kept, interval '30 days')
        ORDER BY e.created_at, e.id LIMIT least(most, 10000)
        FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM public.audit_events e USING old WHERE e.id = old.id RETURNING 1
    )
    SELECT count(*)::integer FROM gone
$$;
REVOKE ALL ON FUNCTION gateway.forget_audit_events FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gateway.forget_audit_events TO loraplex_system;
"""


def upgrade() -> None:
    op.execute(TABLE)
    op.execute("SET LOCAL ROLE loraplex_system")
    op.execute(RECORD)
    op.execute("RESET ROLE")
    op.execute("GRANT CREATE, USAGE ON SCHEMA gateway TO loraplex_migrator")
    op.execute(FORGET)
    op.execute("REVOKE CREATE ON SCHEMA gateway FROM loraplex_migrator")
