"""System prompts that operators have declared public; every gateway reads them."""

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE public_prefixes (
    id uuid NOT NULL DEFAULT gen_random_uuid() CONSTRAINT public_prefixes_pkey PRIMARY KEY,
    name varchar NOT NULL CONSTRAINT public_prefixes_name_key UNIQUE,
    text varchar NOT NULL CONSTRAINT public_prefixes_text_check
        CHECK (octet_length(text) BETWEEN 1 AND 262144),
    declared_by varchar NOT NULL,
    declared_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT ON public_prefixes TO loraplex_app, loraplex_readonly;
GRANT SELECT, INSERT, UPDATE, DELETE ON public_prefixes TO loraplex_system;
CREATE TRIGGER notify_change AFTER INSERT OR UPDATE OR DELETE ON public_prefixes
    FOR EACH ROW EXECUTE FUNCTION notify_change();
"""


def upgrade() -> None:
    op.execute(TABLE)
