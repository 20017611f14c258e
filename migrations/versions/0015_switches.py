"""Kill switches: turned by operators, on role `system`; read by everybody, who hears of changes."""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE switches (
    id uuid NOT NULL DEFAULT gen_random_uuid() CONSTRAINT switches_pkey PRIMARY KEY,
    name varchar NOT NULL CONSTRAINT switches_name_key UNIQUE,
    is_on boolean NOT NULL,
    reason varchar NOT NULL,
    changed_by varchar NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO switches (name, is_on, reason, changed_by) VALUES
    ('read_only', false, '', 'migration'), ('no_uploads', false, '', 'migration');

GRANT SELECT ON switches TO loraplex_app, loraplex_readonly;
GRANT SELECT, INSERT, UPDATE ON switches TO loraplex_system;
CREATE TRIGGER notify_change AFTER INSERT OR UPDATE OR DELETE ON switches
    FOR EACH ROW EXECUTE FUNCTION notify_change();
"""


def upgrade() -> None:
    op.execute(TABLE)
