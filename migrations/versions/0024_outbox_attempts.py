"""Remembers how often the broker did not take a message of the outbox, and why."""

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE outbox ADD COLUMN attempts integer NOT NULL DEFAULT 0, "
        "ADD COLUMN last_error text"
    )
