"""What a tenant's deletion leaves of names in its audit lines: nothing.

Only the table's owner may change a line. `gateway.pseudonymise_audit` does so for `system`, and for
a tenant whose deletion was asked for alone: of its lines stay what was done, when, to what by id,
and by which kind of actor with which id. Operators and the platform itself keep their labels, since
they are not the tenant's.
"""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

PSEUDONYMISE = """
CREATE FUNCTION gateway.pseudonymise_audit(of_tenant uuid) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE public.audit_events e SET
        actor_label = CASE WHEN e.actor_kind IN ('key', 'person') THEN 'deleted'
                      ELSE e.actor_label END,
        address = CASE WHEN e.actor_kind IN ('key', 'person') THEN NULL ELSE e.address END,
        target_name = NULL,
        before = NULL,
        after = NULL
    WHERE e.tenant_id = of_tenant
      AND EXISTS (SELECT FROM public.tenant_deletions d WHERE d.tenant_id = of_tenant)
$$;
REVOKE ALL ON FUNCTION gateway.pseudonymise_audit FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gateway.pseudonymise_audit TO loraplex_system;
"""


def upgrade() -> None:
    op.execute("GRANT CREATE, USAGE ON SCHEMA gateway TO loraplex_migrator")
    op.execute(PSEUDONYMISE)
    op.execute("REVOKE CREATE ON SCHEMA gateway FROM loraplex_migrator")
