"""What a key may do, for whom and until when; what it is replaced by; when it was last used.

`find_key`, `find_session` and `open_session` stay for gateways of the release before, which know no
scopes: through them only keys without any restriction are found. A later migration drops them.
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

COLUMNS = """
ALTER TABLE api_keys
    ADD COLUMN member_id uuid,
    ADD COLUMN role varchar NOT NULL DEFAULT 'owner' CONSTRAINT api_keys_role_check
        CHECK (role IN ('owner', 'admin', 'developer', 'viewer', 'inference')),
    ADD COLUMN scopes varchar[],
    ADD COLUMN models varchar[],
    ADD COLUMN disabled_at timestamptz,
    ADD COLUMN last_used_at timestamptz,
    ADD COLUMN replaced_by_id uuid,
    ADD CONSTRAINT api_keys_tenant_id_member_id_fkey
        FOREIGN KEY (tenant_id, member_id) REFERENCES memberships (tenant_id, id),
    ADD CONSTRAINT api_keys_tenant_id_replaced_by_id_fkey
        FOREIGN KEY (tenant_id, replaced_by_id) REFERENCES api_keys (tenant_id, id);
CREATE INDEX api_keys_member_idx ON api_keys (tenant_id, member_id) WHERE member_id IS NOT NULL;
CREATE INDEX api_keys_oldest_idx ON api_keys (tenant_id, created_at, id);

ALTER TABLE operator_keys
    ADD COLUMN user_id uuid CONSTRAINT operator_keys_user_id_fkey REFERENCES users (id),
    ADD COLUMN role varchar NOT NULL DEFAULT 'admin' CONSTRAINT operator_keys_role_check
        CHECK (role IN ('admin', 'admin_viewer')),
    ADD COLUMN disabled_at timestamptz,
    ADD COLUMN last_used_at timestamptz,
    ADD COLUMN replaced_by_id uuid CONSTRAINT operator_keys_replaced_by_id_fkey
        REFERENCES operator_keys (id);
"""

SHOWN = "name, label, expires_at, revoked_at, created_at, disabled_at, last_used_at, replaced_by_id"
CHANGED = "name, expires_at, revoked_at, disabled_at, replaced_by_id"
GRANTS = f"""
GRANT SELECT (id, tenant_id, member_id, role, scopes, models, {SHOWN})
    ON api_keys TO loraplex_app;
GRANT INSERT (
    id, tenant_id, member_id, role, scopes, models, name, label, key_hash, expires_at
) ON api_keys TO loraplex_app;
GRANT UPDATE (models, {CHANGED}) ON api_keys TO loraplex_app;
GRANT SELECT (member_id, role, scopes, models, disabled_at, last_used_at, replaced_by_id)
    ON api_keys TO loraplex_readonly;
GRANT SELECT (user_id, role, disabled_at, last_used_at, replaced_by_id)
    ON operator_keys TO loraplex_readonly;
"""

# Not of last_used_at, which changes all the time and which nobody caches.
NOTIFICATION = """
CREATE OR REPLACE TRIGGER notify_change
    AFTER UPDATE OF name, key_hash, expires_at, revoked_at, disabled_at, member_id, role, scopes,
        models OR DELETE ON api_keys
    FOR EACH ROW EXECUTE FUNCTION notify_change();
CREATE OR REPLACE TRIGGER notify_change
    AFTER UPDATE OF name, key_hash, expires_at, revoked_at, disabled_at, user_id, role OR DELETE
    ON operator_keys
    FOR EACH ROW EXECUTE FUNCTION notify_change();
"""

CREDENTIAL = """
    kind text, state text, expires_at timestamptz, seconds_left double precision,
    key_id uuid, member_id uuid, user_id uuid, name text, label text,
    tenant_id uuid, tenant_name text, namespace text, tenant_state text,
    role text, scopes text[], models text[]
"""
SHOWN_CREDENTIAL = """
    c.kind, c.state, c.expires_at, extract(epoch FROM c.expires_at - now())::double precision,
    c.key_id, c.member_id, c.user_id, c.name, c.label,
    c.tenant_id, c.tenant_name, c.namespace, c.tenant_state,
    c.role, c.scopes, c.models
"""

# A member's key follows the membership: its role of today, and its end. An operator's does the
# same. Every credential that exists is found, with its state: a cache must know what a refusal
# hangs on, and whoever has a key's text may know why it is refused.
FUNCTIONS = f"""
CREATE OR REPLACE VIEW gateway.live_keys AS
    SELECT k.key_hash, 'tenant' AS kind, k.id AS key_id, k.name AS key_name,
           t.id AS tenant_id, t.name AS tenant_name, t.namespace, t.state AS tenant_state,
           t.max_concurrent_requests, k.expires_at
    FROM public.api_keys k JOIN public.tenants t ON t.id = k.tenant_id
    WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
      AND k.disabled_at IS NULL AND k.member_id IS NULL AND k.role = 'owner'
      AND k.scopes IS NULL AND k.models IS NULL
    UNION ALL
    SELECT k.key_hash, 'operator', k.id, k.name, NULL, NULL, NULL, NULL, NULL, k.expires_at
    FROM public.operator_keys k
    WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
      AND k.disabled_at IS NULL AND k.user_id IS NULL AND k.role = 'admin';

CREATE VIEW gateway.key_credentials AS
    SELECT k.key_hash, 'tenant'::text AS kind,
           CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked'
                WHEN k.member_id IS NOT NULL
                     AND (m.ended_at IS NOT NULL OR u.id IS NULL OR u.disabled_at IS NOT NULL)
                THEN 'revoked'
                WHEN k.disabled_at IS NOT NULL THEN 'disabled'
                WHEN k.expires_at <= now() THEN 'expired'
                ELSE 'live' END AS state,
           k.expires_at, k.id AS key_id, k.member_id, m.user_id,
           k.name::text, k.label::text, t.id AS tenant_id, t.name::text AS tenant_name,
           t.namespace::text, t.state::text AS tenant_state,
           coalesce(m.role, k.role)::text AS role, k.scopes::text[], k.models::text[]
    FROM public.api_keys k
    JOIN public.tenants t ON t.id = k.tenant_id
    LEFT JOIN public.memberships m ON m.tenant_id = k.tenant_id AND m.id = k.member_id
    LEFT JOIN public.users u ON u.id = m.user_id
    UNION ALL
    SELECT k.key_hash, 'operator',
           CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked'
                WHEN k.user_id IS NOT NULL
                     AND (u.operator_role IS NULL OR u.disabled_at IS NOT NULL)
                THEN 'revoked'
                WHEN k.disabled_at IS NOT NULL THEN 'disabled'
                WHEN k.expires_at <= now() THEN 'expired'
                ELSE 'live' END,
           k.expires_at, k.id, NULL, k.user_id, k.name, k.label,
           NULL, NULL, NULL, NULL,
           CASE WHEN u.operator_role = 'admin_viewer' THEN u.operator_role ELSE k.role END,
           NULL, NULL
    FROM public.operator_keys k LEFT JOIN public.users u ON u.id = k.user_id;

CREATE VIEW gateway.session_credentials AS
    SELECT s.token_hash, k.kind,
           CASE WHEN k.state <> 'live' THEN k.state
                WHEN s.expires_at <= now() THEN 'expired'
                ELSE 'live' END AS state,
           least(s.expires_at, k.expires_at) AS expires_at, k.key_id, k.member_id,
           k.user_id, k.name, k.label, k.tenant_id, k.tenant_name, k.namespace, k.tenant_state,
           k.role, k.scopes, k.models
    FROM (
        SELECT w.token_hash, 'tenant' AS kind, w.api_key_id AS key_id, w.expires_at
        FROM public.web_sessions w
        UNION ALL
        SELECT o.token_hash, 'operator', o.operator_key_id, o.expires_at
        FROM public.operator_sessions o
    ) s JOIN gateway.key_credentials k ON k.kind = s.kind AND k.key_id = s.key_id;

CREATE FUNCTION gateway.find_key_credential(candidate_hashes bytea[])
RETURNS TABLE ({CREDENTIAL})
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {SHOWN_CREDENTIAL} FROM gateway.key_credentials c
    WHERE c.key_hash = ANY (candidate_hashes)
$$;

CREATE FUNCTION gateway.find_session_credential(candidate_hashes bytea[])
RETURNS TABLE ({CREDENTIAL})
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {SHOWN_CREDENTIAL} FROM gateway.session_credentials c
    WHERE c.token_hash = ANY (candidate_hashes)
$$;

CREATE FUNCTION gateway.open_key_session(
    candidate_hashes bytea[], new_token_hash bytea, lifetime interval
) RETURNS TABLE ({CREDENTIAL})
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH found AS (
        SELECT * FROM gateway.key_credentials k WHERE k.key_hash = ANY (candidate_hashes)
    ), of_tenant AS (
        INSERT INTO public.web_sessions (token_hash, tenant_id, api_key_id, expires_at)
        SELECT new_token_hash, f.tenant_id, f.key_id, least(now() + lifetime, f.expires_at)
        FROM found f WHERE f.kind = 'tenant' AND f.state = 'live'
    ), of_operator AS (
        INSERT INTO public.operator_sessions (token_hash, operator_key_id, expires_at)
        SELECT new_token_hash, f.key_id, least(now() + lifetime, f.expires_at)
        FROM found f WHERE f.kind = 'operator' AND f.state = 'live'
    )
    SELECT {SHOWN_CREDENTIAL} FROM found c
$$;

CREATE FUNCTION gateway.record_key_uses(used_keys uuid[], precision_kept interval) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH due AS (
        SELECT k.id FROM public.api_keys k
        WHERE k.id = ANY (used_keys)
          AND (k.last_used_at IS NULL OR k.last_used_at < now() - precision_kept)
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE public.api_keys k SET last_used_at = now() FROM due WHERE k.id = due.id;
    WITH due AS (
        SELECT k.id FROM public.operator_keys k
        WHERE k.id = ANY (used_keys)
          AND (k.last_used_at IS NULL OR k.last_used_at < now() - precision_kept)
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE public.operator_keys k SET last_used_at = now() FROM due WHERE k.id = due.id;
$$;

REVOKE ALL ON FUNCTION
    gateway.find_key_credential, gateway.find_session_credential, gateway.open_key_session,
    gateway.record_key_uses FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    gateway.find_key_credential, gateway.find_session_credential, gateway.open_key_session,
    gateway.record_key_uses TO loraplex_app;
"""


def upgrade() -> None:
    op.execute(COLUMNS)
    op.execute(GRANTS)
    op.execute(NOTIFICATION)
    op.execute("SET LOCAL ROLE loraplex_system")
    op.execute(FUNCTIONS)
    op.execute("RESET ROLE")
