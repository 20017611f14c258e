"""Classes of service that operators have chosen, and the span in which a message was asked for."""

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE slo_choices (
    id uuid NOT NULL CONSTRAINT slo_choices_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL
        CONSTRAINT slo_choices_tenant_id_fkey REFERENCES tenants (id) ON DELETE CASCADE,
    api_key_id uuid,
    slo_class varchar NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT slo_choices_tenant_id_api_key_id_fkey FOREIGN KEY (tenant_id, api_key_id)
        REFERENCES api_keys (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX slo_choices_subject_idx ON slo_choices (tenant_id, api_key_id)
    NULLS NOT DISTINCT;

ALTER TABLE slo_choices ENABLE ROW LEVEL SECURITY;
ALTER TABLE slo_choices FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON slo_choices TO loraplex_app
    USING (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid);
CREATE POLICY reader_sees_all ON slo_choices FOR SELECT TO loraplex_readonly USING (true);
GRANT SELECT ON slo_choices TO loraplex_readonly;
GRANT SELECT, INSERT, UPDATE, DELETE ON slo_choices TO loraplex_system;
CREATE TRIGGER notify_change AFTER INSERT OR UPDATE OR DELETE ON slo_choices
    FOR EACH ROW EXECUTE FUNCTION notify_change();

ALTER TABLE outbox ADD COLUMN traceparent varchar;
"""

# A gateway needs every tenant's choice at hand, and the names of those who call most.
FUNCTIONS = """
CREATE FUNCTION gateway.slo_choices() RETURNS TABLE (subject_id uuid, slo_class text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(c.api_key_id, c.tenant_id), c.slo_class FROM public.slo_choices c
$$;

CREATE FUNCTION gateway.busiest_tenants(most integer) RETURNS TABLE (tenant_name text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.name
    FROM public.usage_rollups u JOIN public.tenants t ON t.id = u.tenant_id
    WHERE u.width = '1h' AND u.bucket_start > now() - interval '1 day'
    GROUP BY t.id, t.name
    ORDER BY sum(u.requests) DESC, t.name
    LIMIT most
$$;

REVOKE ALL ON FUNCTION gateway.slo_choices(), gateway.busiest_tenants(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gateway.slo_choices(), gateway.busiest_tenants(integer) TO loraplex_app;
"""


def upgrade() -> None:
    op.execute(TABLE)
    op.execute("SET LOCAL ROLE loraplex_system")
    op.execute(FUNCTIONS)
    op.execute("RESET ROLE")
