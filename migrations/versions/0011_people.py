"""People: users and where they are members, invitations, their sessions, and OIDC logins under way.

`users` and what hangs on them belong to no tenant. Gateways reach them through functions alone
(0001 says why); of a tenant's memberships and invitations they see the tenant's own.
"""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE users (
    id uuid NOT NULL CONSTRAINT users_pkey PRIMARY KEY,
    email varchar NOT NULL CONSTRAINT users_email_key UNIQUE
        CONSTRAINT users_email_check CHECK (email = lower(email) AND email LIKE '%_@_%'),
    display_name varchar NOT NULL,
    password_hash varchar,
    password_changed_at timestamptz,
    operator_role varchar CONSTRAINT users_operator_role_check
        CHECK (operator_role IN ('admin', 'admin_viewer')),
    operator_role_source varchar CONSTRAINT users_operator_role_source_check
        CHECK (operator_role_source IN ('operator', 'identity_provider')),
    disabled_at timestamptz,
    last_signed_in_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT users_operator_check
        CHECK ((operator_role IS NULL) = (operator_role_source IS NULL))
);

CREATE TABLE user_identities (
    issuer varchar NOT NULL,
    subject varchar NOT NULL,
    user_id uuid NOT NULL CONSTRAINT user_identities_user_id_fkey REFERENCES users (id),
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT user_identities_pkey PRIMARY KEY (issuer, subject)
);
CREATE INDEX user_identities_user_id_idx ON user_identities (user_id);

CREATE TABLE memberships (
    id uuid NOT NULL CONSTRAINT memberships_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT memberships_tenant_id_fkey REFERENCES tenants (id),
    user_id uuid CONSTRAINT memberships_user_id_fkey REFERENCES users (id),
    role varchar NOT NULL CONSTRAINT memberships_role_check
        CHECK (role IN ('owner', 'admin', 'developer', 'viewer', 'inference')),
    source varchar NOT NULL CONSTRAINT memberships_source_check
        CHECK (source IN ('invitation', 'operator', 'identity_provider')),
    ended_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT memberships_tenant_id_id_key UNIQUE (tenant_id, id),
    CONSTRAINT memberships_user_check CHECK (user_id IS NOT NULL OR ended_at IS NOT NULL)
);
CREATE UNIQUE INDEX memberships_live_idx ON memberships (tenant_id, user_id)
    WHERE ended_at IS NULL;
CREATE INDEX memberships_user_id_idx ON memberships (user_id);

CREATE TABLE invitations (
    id uuid NOT NULL CONSTRAINT invitations_pkey PRIMARY KEY,
    tenant_id uuid CONSTRAINT invitations_tenant_id_fkey REFERENCES tenants (id),
    email varchar NOT NULL CONSTRAINT invitations_email_check CHECK (email = lower(email)),
    role varchar CONSTRAINT invitations_role_check
        CHECK (role IN ('owner', 'admin', 'developer', 'viewer', 'inference')),
    operator_role varchar CONSTRAINT invitations_operator_role_check
        CHECK (operator_role IN ('admin', 'admin_viewer')),
    token_hash bytea NOT NULL CONSTRAINT invitations_token_hash_key UNIQUE,
    invited_by varchar NOT NULL,
    expires_at timestamptz NOT NULL,
    accepted_at timestamptz,
    revoked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT invitations_tenant_id_id_key UNIQUE (tenant_id, id),
    CONSTRAINT invitations_tenant_check CHECK ((tenant_id IS NULL) = (role IS NULL)),
    CONSTRAINT invitations_operator_check CHECK (operator_role IS NULL OR tenant_id IS NULL)
);

CREATE TABLE person_sessions (
    token_hash bytea NOT NULL CONSTRAINT person_sessions_pkey PRIMARY KEY,
    id uuid NOT NULL CONSTRAINT person_sessions_id_key UNIQUE,
    user_id uuid NOT NULL CONSTRAINT person_sessions_user_id_fkey REFERENCES users (id),
    tenant_id uuid,
    membership_id uuid,
    method varchar NOT NULL CONSTRAINT person_sessions_method_check
        CHECK (method IN ('password', 'identity_provider')),
    address varchar NOT NULL,
    user_agent varchar NOT NULL,
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT person_sessions_place_check
        CHECK ((tenant_id IS NULL) = (membership_id IS NULL)),
    CONSTRAINT person_sessions_tenant_id_membership_id_fkey
        FOREIGN KEY (tenant_id, membership_id) REFERENCES memberships (tenant_id, id)
);
CREATE INDEX person_sessions_user_id_idx ON person_sessions (user_id);

CREATE TABLE oidc_logins (
    state_hash bytea NOT NULL CONSTRAINT oidc_logins_pkey PRIMARY KEY,
    sealed bytea NOT NULL,
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
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

INVITATION_SHOWN = """
    id, tenant_id, email, role, operator_role, invited_by, expires_at, accepted_at, revoked_at,
    created_at
"""
GRANTS = f"""
GRANT SELECT, INSERT, UPDATE, DELETE ON
    users, user_identities, memberships, invitations, person_sessions, oidc_logins
    TO loraplex_system;

GRANT SELECT ON memberships TO loraplex_app;
GRANT UPDATE (role, ended_at) ON memberships TO loraplex_app;
GRANT SELECT ({INVITATION_SHOWN}) ON invitations TO loraplex_app;
GRANT INSERT ON invitations TO loraplex_app;
GRANT UPDATE (revoked_at) ON invitations TO loraplex_app;
GRANT SELECT, INSERT, DELETE ON oidc_logins TO loraplex_app;

GRANT SELECT ON memberships, user_identities TO loraplex_readonly;
GRANT SELECT (
    id, email, display_name, password_changed_at, operator_role, operator_role_source, disabled_at,
    last_signed_in_at, created_at
) ON users TO loraplex_readonly;
GRANT SELECT ({INVITATION_SHOWN}) ON invitations TO loraplex_readonly;
GRANT SELECT (
    id, user_id, tenant_id, membership_id, method, address, user_agent, expires_at, created_at
) ON person_sessions TO loraplex_readonly;
GRANT SELECT (expires_at, created_at) ON oidc_logins TO loraplex_readonly;
"""


def upgrade() -> None:
    op.execute(TABLES)
    for table in ("memberships", "invitations", "person_sessions"):
        op.execute(ROW_SECURITY.format(table=table))
    op.execute(GRANTS)
