"""What the last look at long ago found: of each invariant, how often it does not hold there."""

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE invariant_checks (
            invariant varchar NOT NULL CONSTRAINT invariant_checks_pkey PRIMARY KEY,
            violations bigint NOT NULL,
            checked_at timestamptz NOT NULL DEFAULT now()
        );
        GRANT SELECT, INSERT, UPDATE, DELETE ON invariant_checks TO loraplex_system;
        GRANT SELECT ON invariant_checks TO loraplex_readonly;
        """
    )
