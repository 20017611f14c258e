"""Removal that can be undone, quarantine, numbers that are never given twice, and bytes in use."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

COLUMNS = """
ALTER TABLE adapters
    ADD COLUMN deleted_at timestamptz,
    ADD COLUMN last_number integer NOT NULL DEFAULT 0;
ALTER TABLE adapters ALTER COLUMN last_number DROP DEFAULT;
UPDATE adapters SET last_number = coalesce(
    (SELECT max(number) FROM adapter_versions v
     WHERE v.tenant_id = adapters.tenant_id AND v.adapter_id = adapters.id), 0);

ALTER TABLE adapter_versions
    ADD COLUMN deleted_at timestamptz,
    ADD COLUMN quarantined_at timestamptz,
    ADD COLUMN quarantine_reason varchar,
    ADD CONSTRAINT adapter_versions_quarantine_check
        CHECK ((quarantined_at IS NULL) = (quarantine_reason IS NULL));
CREATE INDEX adapters_deleted_at_idx ON adapters (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX adapter_versions_deleted_at_idx ON adapter_versions (deleted_at)
    WHERE deleted_at IS NOT NULL;
CREATE INDEX adapter_versions_weights_digest_idx ON adapter_versions (tenant_id, weights_digest);
CREATE INDEX adapter_versions_config_digest_idx ON adapter_versions (tenant_id, config_digest);

ALTER TABLE reservations ADD COLUMN weights_digest varchar;
CREATE INDEX blobs_created_at_idx ON blobs (created_at);
GRANT UPDATE (deleted_at) ON adapter_versions TO loraplex_app;
"""


def upgrade() -> None:
    op.execute(COLUMNS)
