"""A webhook can be disabled because it answered 410; old deliveries are found by their time."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        ALTER TABLE webhook_endpoints DROP CONSTRAINT webhook_endpoints_disabled_reason_check;
        ALTER TABLE webhook_endpoints ADD CONSTRAINT webhook_endpoints_disabled_reason_check
            CHECK (disabled_reason IN ('tenant', 'failures', 'gone'));
        CREATE INDEX webhook_deliveries_created_at_idx ON webhook_deliveries (created_at);
        """
    )
