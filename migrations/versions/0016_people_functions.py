"""What a gateway may do about people: the functions of role `system` that it reaches them through.

Each takes a proof (a token's hash, a password's hash as read before it was checked, an identity
that a provider vouched for) and touches the rows that the proof names. Every name is qualified.
"""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

VIEWS = """
CREATE VIEW gateway.members WITH (security_barrier) AS
    SELECT m.id, m.tenant_id, m.user_id, u.email, u.display_name, m.role, m.source, m.created_at,
           u.disabled_at, u.last_signed_in_at
    FROM public.memberships m JOIN public.users u ON u.id = m.user_id
    WHERE m.ended_at IS NULL
      AND m.tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid;
GRANT SELECT ON gateway.members TO loraplex_app;

CREATE VIEW gateway.live_memberships AS
    SELECT m.id, m.user_id, m.role, m.created_at, m.tenant_id, t.name AS tenant_name, t.namespace,
           t.state AS tenant_state, t.max_concurrent_requests
    FROM public.memberships m JOIN public.tenants t ON t.id = m.tenant_id
    WHERE m.ended_at IS NULL;

CREATE VIEW gateway.live_person_sessions AS
    SELECT s.token_hash, s.id AS session_id, u.id AS user_id, u.email, u.display_name,
           u.operator_role, u.password_hash IS NOT NULL AS has_password, s.method,
           s.tenant_id, m.id AS membership_id, m.role, m.tenant_name, m.namespace, m.tenant_state,
           m.max_concurrent_requests, s.address, s.user_agent, s.expires_at, s.created_at
    FROM public.person_sessions s
    JOIN public.users u ON u.id = s.user_id AND u.disabled_at IS NULL
    LEFT JOIN gateway.live_memberships m ON m.id = s.membership_id
    WHERE s.expires_at > now()
      AND CASE WHEN s.tenant_id IS NULL THEN u.operator_role IS NOT NULL
               ELSE m.id IS NOT NULL END;

CREATE VIEW gateway.open_invitations AS
    SELECT i.id, i.token_hash, i.email, i.tenant_id, t.name AS tenant_name, i.role, i.operator_role,
           i.expires_at
    FROM public.invitations i LEFT JOIN public.tenants t ON t.id = i.tenant_id
    WHERE i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > now()
      AND (t.id IS NULL OR t.state = 'active');
"""

# Called by the functions below and by nobody else; they run as whoever owns those.
INNER_FUNCTIONS = """
CREATE FUNCTION gateway.begin_person_session(
    account uuid, how text, new_token_hash bytea, lifetime interval,
    client_address text, client_agent text, wanted_tenant uuid
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_operator boolean;
    place_id uuid;
    place_tenant uuid;
BEGIN
    SELECT u.operator_role IS NOT NULL INTO is_operator FROM public.users u WHERE u.id = account;
    IF wanted_tenant IS NOT NULL OR NOT is_operator THEN
        SELECT m.id, m.tenant_id INTO place_id, place_tenant FROM gateway.live_memberships m
            WHERE m.user_id = account AND (wanted_tenant IS NULL OR m.tenant_id = wanted_tenant)
            ORDER BY m.tenant_state, m.created_at, m.id LIMIT 1;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    INSERT INTO public.person_sessions (
        token_hash, id, user_id, tenant_id, membership_id, method, address, user_agent, expires_at)
    VALUES (new_token_hash, gen_random_uuid(), account, place_tenant, place_id, how,
            client_address, client_agent, now() + lifetime);
    UPDATE public.users SET last_signed_in_at = now() WHERE id = account;
    RETURN true;
END
$$;

CREATE FUNCTION gateway.grant_invited(invitation uuid, account uuid) RETURNS uuid
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    invited public.invitations;
BEGIN
    UPDATE public.invitations SET accepted_at = now() WHERE id = invitation
        RETURNING * INTO invited;
    IF invited.operator_role IS NOT NULL THEN
        UPDATE public.users SET operator_role = invited.operator_role,
            operator_role_source = 'operator' WHERE id = account;
    ELSIF invited.tenant_id IS NOT NULL THEN
        INSERT INTO public.memberships (id, tenant_id, user_id, role, source)
        VALUES (gen_random_uuid(), invited.tenant_id, account, invited.role, 'invitation')
        ON CONFLICT (tenant_id, user_id) WHERE ended_at IS NULL
        DO UPDATE SET role = excluded.role, source = excluded.source;
    END IF;
    RETURN invited.tenant_id;
END
$$;
"""

PASSWORDS = """
CREATE FUNCTION gateway.find_account(account_email text)
RETURNS TABLE (user_id uuid, password_hash text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT u.id, u.password_hash FROM public.users u
    WHERE u.email = account_email AND u.disabled_at IS NULL AND u.password_hash IS NOT NULL
$$;

CREATE FUNCTION gateway.open_person_session(
    account uuid, checked_password_hash text, new_token_hash bytea, lifetime interval,
    client_address text, client_agent text
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM public.users u WHERE u.id = account AND u.disabled_at IS NULL
        AND u.password_hash = checked_password_hash FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    IF NOT gateway.begin_person_session(
        account, 'password', new_token_hash, lifetime, client_address, client_agent, NULL)
    THEN
        RETURN 'no_place';
    END IF;
    RETURN 'opened';
END
$$;

CREATE FUNCTION gateway.rehash_password(
    account uuid, checked_password_hash text, new_password_hash text
) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE public.users u SET password_hash = new_password_hash
    WHERE u.id = account AND u.password_hash = checked_password_hash
$$;

CREATE FUNCTION gateway.change_password(
    account uuid, checked_password_hash text, new_password_hash text
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE public.users u SET password_hash = new_password_hash, password_changed_at = now()
        WHERE u.id = account AND u.disabled_at IS NULL AND u.password_hash = checked_password_hash;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM public.person_sessions s WHERE s.user_id = account;
    RETURN true;
END
$$;
"""

SESSION_COLUMNS = """
    session_id uuid, user_id uuid, email text, display_name text, operator_role text,
    has_password boolean, method text, tenant_id uuid, membership_id uuid, role text,
    tenant_name text, namespace text, tenant_state text, max_concurrent_requests integer
"""

SESSIONS = f"""
CREATE FUNCTION gateway.find_person_session(candidate_hashes bytea[])
RETURNS TABLE ({SESSION_COLUMNS})
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.session_id, s.user_id, s.email, s.display_name, s.operator_role, s.has_password,
           s.method, s.tenant_id, s.membership_id, s.role, s.tenant_name, s.namespace,
           s.tenant_state, s.max_concurrent_requests
    FROM gateway.live_person_sessions s WHERE s.token_hash = ANY (candidate_hashes)
$$;

CREATE FUNCTION gateway.close_person_session(candidate_hashes bytea[]) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM public.person_sessions s WHERE s.token_hash = ANY (candidate_hashes)
$$;

CREATE FUNCTION gateway.places_of_person(candidate_hashes bytea[])
RETURNS TABLE (tenant_name text, tenant_state text, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT m.tenant_name, m.tenant_state, m.role
    FROM gateway.live_person_sessions s JOIN gateway.live_memberships m ON m.user_id = s.user_id
    WHERE s.token_hash = ANY (candidate_hashes) ORDER BY m.tenant_name
$$;

CREATE FUNCTION gateway.choose_place(candidate_hashes bytea[], wanted_tenant text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_session record;
    place_id uuid;
    place_tenant uuid;
BEGIN
    SELECT s.token_hash, s.user_id, s.operator_role INTO found_session
        FROM gateway.live_person_sessions s WHERE s.token_hash = ANY (candidate_hashes);
    IF wanted_tenant IS NOT NULL THEN
        SELECT m.id, m.tenant_id INTO place_id, place_tenant FROM gateway.live_memberships m
            WHERE m.user_id = found_session.user_id AND m.tenant_name = wanted_tenant;
    END IF;
    IF place_id IS NULL AND (wanted_tenant IS NOT NULL OR found_session.operator_role IS NULL) THEN
        RETURN false;
    END IF;
    UPDATE public.person_sessions s SET tenant_id = place_tenant, membership_id = place_id
        WHERE s.token_hash = found_session.token_hash;
    RETURN true;
END
$$;

CREATE FUNCTION gateway.list_person_sessions(candidate_hashes bytea[])
RETURNS TABLE (
    session_id uuid, tenant_name text, method text, address text, user_agent text,
    created_at timestamptz, expires_at timestamptz, is_current boolean
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT other.session_id, other.tenant_name, other.method, other.address, other.user_agent,
           other.created_at, other.expires_at, other.session_id = mine.session_id
    FROM gateway.live_person_sessions mine
    JOIN gateway.live_person_sessions other ON other.user_id = mine.user_id
    WHERE mine.token_hash = ANY (candidate_hashes)
    ORDER BY other.created_at DESC, other.session_id
$$;

CREATE FUNCTION gateway.end_person_sessions(candidate_hashes bytea[], wanted_session uuid)
RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH ended AS (
        DELETE FROM public.person_sessions s USING gateway.live_person_sessions mine
        WHERE mine.token_hash = ANY (candidate_hashes) AND s.user_id = mine.user_id
          AND CASE WHEN wanted_session IS NULL THEN s.id <> mine.session_id
                   ELSE s.id = wanted_session END
        RETURNING 1
    )
    SELECT count(*)::integer FROM ended
$$;
"""

INVITATIONS = """
CREATE FUNCTION gateway.find_invitation(candidate_hashes bytea[])
RETURNS TABLE (
    invitation_id uuid, email text, tenant_id uuid, tenant_name text, role text,
    operator_role text, expires_at timestamptz, user_id uuid, password_hash text
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT i.id, i.email, i.tenant_id, i.tenant_name, i.role, i.operator_role, i.expires_at, u.id,
           u.password_hash
    FROM gateway.open_invitations i LEFT JOIN public.users u ON u.email = i.email
    WHERE i.token_hash = ANY (candidate_hashes) AND u.disabled_at IS NULL
$$;

-- A new person gets the given password. Somebody known must have been proved to be them, by their
-- password or by a session of theirs: whoever holds a link to a tenant is not thereby that person.
-- A link to a new password is made by operators alone, for that very purpose.
CREATE FUNCTION gateway.accept_invitation(
    candidate_hashes bytea[], checked_password_hash text, session_hashes bytea[],
    new_password_hash text, new_display_name text, new_token_hash bytea, lifetime interval,
    client_address text, client_agent text
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    invited record;
    account public.users;
    wanted_tenant uuid;
    is_new_password boolean;
BEGIN
    PERFORM FROM public.invitations i WHERE i.token_hash = ANY (candidate_hashes) FOR UPDATE;
    SELECT * INTO invited FROM gateway.open_invitations i
        WHERE i.token_hash = ANY (candidate_hashes);
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    is_new_password := invited.role IS NULL AND invited.operator_role IS NULL;
    SELECT * INTO account FROM public.users u WHERE u.email = invited.email FOR UPDATE;
    IF NOT FOUND THEN
        IF new_password_hash IS NULL OR is_new_password THEN
            RETURN 'password_wanted';
        END IF;
        INSERT INTO public.users (id, email, display_name, password_hash, password_changed_at)
        VALUES (gen_random_uuid(), invited.email, new_display_name, new_password_hash, now())
        ON CONFLICT DO NOTHING RETURNING * INTO account;
        IF NOT FOUND THEN
            RETURN 'unproved';
        END IF;
    ELSIF account.disabled_at IS NOT NULL THEN
        RETURN 'unknown';
    ELSIF is_new_password THEN
        IF new_password_hash IS NULL THEN
            RETURN 'password_wanted';
        END IF;
        UPDATE public.users u SET password_hash = new_password_hash, password_changed_at = now()
            WHERE u.id = account.id;
        DELETE FROM public.person_sessions s WHERE s.user_id = account.id;
    ELSIF account.password_hash IS DISTINCT FROM checked_password_hash
        OR checked_password_hash IS NULL
    THEN
        PERFORM FROM gateway.live_person_sessions s
            WHERE s.token_hash = ANY (session_hashes) AND s.user_id = account.id;
        IF NOT FOUND THEN
            RETURN 'unproved';
        END IF;
    END IF;
    wanted_tenant := gateway.grant_invited(invited.id, account.id);
    IF NOT gateway.begin_person_session(
        account.id, 'password', new_token_hash, lifetime, client_address, client_agent,
        wanted_tenant)
    THEN
        RETURN 'no_place';
    END IF;
    RETURN 'accepted';
END
$$;
"""

OIDC = """
-- Whoever signs in by an identity is the account of their verified e-mail. An account that had a
-- password before its owner ever proved the e-mail may have been made by somebody else: the
-- password and its sessions end with the first proof, save for operators, whom operators invited.
CREATE FUNCTION gateway.sign_in_by_identity(
    identity_issuer text, identity_subject text, verified_email text, new_display_name text,
    group_operator_role text, group_tenants text[], group_roles text[],
    invitation_hashes bytea[], new_token_hash bytea, lifetime interval,
    client_address text, client_agent text
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    account public.users;
    invited record;
    wanted_tenant uuid;
BEGIN
    SELECT u.* INTO account FROM public.user_identities i JOIN public.users u ON u.id = i.user_id
        WHERE i.issuer = identity_issuer AND i.subject = identity_subject FOR UPDATE OF u;
    IF NOT FOUND THEN
        INSERT INTO public.users (id, email, display_name)
        VALUES (gen_random_uuid(), verified_email, new_display_name) ON CONFLICT DO NOTHING;
        SELECT * INTO account FROM public.users u WHERE u.email = verified_email FOR UPDATE;
        INSERT INTO public.user_identities (issuer, subject, user_id)
        VALUES (identity_issuer, identity_subject, account.id);
        IF account.password_hash IS NOT NULL AND account.operator_role IS NULL THEN
            UPDATE public.users u SET password_hash = NULL WHERE u.id = account.id;
            DELETE FROM public.person_sessions s WHERE s.user_id = account.id;
        END IF;
    END IF;
    IF account.disabled_at IS NOT NULL THEN
        RETURN 'disabled';
    END IF;
    IF account.operator_role_source IS DISTINCT FROM 'operator' THEN
        UPDATE public.users u SET operator_role = group_operator_role, operator_role_source =
            CASE WHEN group_operator_role IS NOT NULL THEN 'identity_provider' END
            WHERE u.id = account.id;
    END IF;
    IF group_operator_role IS NULL AND account.operator_role_source = 'identity_provider' THEN
        DELETE FROM public.person_sessions s WHERE s.user_id = account.id AND s.tenant_id IS NULL;
    END IF;
    UPDATE public.memberships m SET ended_at = now() FROM public.tenants t
        WHERE t.id = m.tenant_id AND m.user_id = account.id AND m.ended_at IS NULL
          AND m.source = 'identity_provider' AND t.name <> ALL (group_tenants);
    INSERT INTO public.memberships AS m (id, tenant_id, user_id, role, source)
        SELECT gen_random_uuid(), t.id, account.id, granted.role, 'identity_provider'
        FROM unnest(group_tenants, group_roles) AS granted (tenant, role)
        JOIN public.tenants t ON t.name = granted.tenant AND t.state IN ('active', 'suspended')
        ORDER BY t.id
        ON CONFLICT (tenant_id, user_id) WHERE ended_at IS NULL
        DO UPDATE SET role = excluded.role
        WHERE m.source = 'identity_provider' AND m.role <> excluded.role;
    SELECT i.id INTO invited FROM gateway.open_invitations i
        WHERE i.token_hash = ANY (invitation_hashes) AND i.email = account.email
          AND (i.role IS NOT NULL OR i.operator_role IS NOT NULL);
    IF FOUND THEN
        wanted_tenant := gateway.grant_invited(invited.id, account.id);
    END IF;
    IF NOT gateway.begin_person_session(
        account.id, 'identity_provider', new_token_hash, lifetime, client_address, client_agent,
        wanted_tenant)
    THEN
        RETURN 'no_place';
    END IF;
    RETURN 'opened';
END
$$;
"""

INNER = ("begin_person_session", "grant_invited")
FOR_GATEWAYS = (
    "find_account",
    "open_person_session",
    "rehash_password",
    "change_password",
    "find_person_session",
    "close_person_session",
    "places_of_person",
    "choose_place",
    "list_person_sessions",
    "end_person_sessions",
    "find_invitation",
    "accept_invitation",
    "sign_in_by_identity",
)


def upgrade() -> None:
    op.execute("SET LOCAL ROLE loraplex_system")
    for statements in (VIEWS, INNER_FUNCTIONS, PASSWORDS, SESSIONS, INVITATIONS, OIDC):
        op.execute(statements)
    for name in (*INNER, *FOR_GATEWAYS):
        op.execute(f"REVOKE ALL ON FUNCTION gateway.{name} FROM PUBLIC")
    for name in FOR_GATEWAYS:
        op.execute(f"GRANT EXECUTE ON FUNCTION gateway.{name} TO loraplex_app")
    op.execute("RESET ROLE")
