"""Notifications of changed rows, for the caches of gateways.

A later migration watches its table by a trigger of its own that executes `notify_change()`, for
each row where the table has an `id`, for each statement where it has none (then every row counts as
changed). Only columns that are cached belong in the trigger: a notification takes a lock that all
commits with notifications share.
"""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

NOTIFICATION = """
CREATE FUNCTION notify_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN
        PERFORM pg_notify('loraplex_changes', TG_TABLE_NAME || ':');
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM pg_notify('loraplex_changes', TG_TABLE_NAME || ':' || OLD.id);
    ELSE
        PERFORM pg_notify('loraplex_changes', TG_TABLE_NAME || ':' || NEW.id);
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER notify_change
    AFTER UPDATE OR DELETE ON tenants FOR EACH ROW EXECUTE FUNCTION notify_change();
CREATE TRIGGER notify_change
    AFTER UPDATE OF name, key_hash, expires_at, revoked_at OR DELETE ON api_keys
    FOR EACH ROW EXECUTE FUNCTION notify_change();
CREATE TRIGGER notify_change
    AFTER UPDATE OF name, key_hash, expires_at, revoked_at OR DELETE ON operator_keys
    FOR EACH ROW EXECUTE FUNCTION notify_change();
CREATE TRIGGER notify_change
    AFTER UPDATE OF role, ended_at OR DELETE ON memberships
    FOR EACH ROW EXECUTE FUNCTION notify_change();
CREATE TRIGGER notify_change
    AFTER UPDATE OF display_name, operator_role, disabled_at OR DELETE ON users
    FOR EACH ROW EXECUTE FUNCTION notify_change();
CREATE TRIGGER notify_change
    AFTER DELETE ON web_sessions FOR EACH STATEMENT EXECUTE FUNCTION notify_change();
CREATE TRIGGER notify_change
    AFTER DELETE ON operator_sessions FOR EACH STATEMENT EXECUTE FUNCTION notify_change();
"""


def upgrade() -> None:
    op.execute(NOTIFICATION)
