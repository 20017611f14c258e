"""Blobs and the storage quota; resumable uploads."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TABLES = """
ALTER TABLE tenants
    ADD COLUMN max_storage_bytes bigint NOT NULL DEFAULT 53687091200
        CONSTRAINT tenants_max_storage_bytes_check CHECK (max_storage_bytes >= 0),
    ADD COLUMN max_open_uploads integer NOT NULL DEFAULT 16
        CONSTRAINT tenants_max_open_uploads_check CHECK (max_open_uploads >= 0);
ALTER TABLE tenants
    ALTER COLUMN max_storage_bytes DROP DEFAULT,
    ALTER COLUMN max_open_uploads DROP DEFAULT;

CREATE TABLE blobs (
    tenant_id uuid NOT NULL CONSTRAINT blobs_tenant_id_fkey REFERENCES tenants (id),
    digest varchar NOT NULL,
    size_bytes bigint NOT NULL CONSTRAINT blobs_size_bytes_check CHECK (size_bytes >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT blobs_pkey PRIMARY KEY (tenant_id, digest)
);
-- A version knows the bytes of its two files only together: they are counted with the weights.
INSERT INTO blobs (tenant_id, digest, size_bytes)
    SELECT tenant_id, weights_digest, max(size_bytes) FROM adapter_versions
    GROUP BY tenant_id, weights_digest;
INSERT INTO blobs (tenant_id, digest, size_bytes)
    SELECT DISTINCT tenant_id, config_digest, 0 FROM adapter_versions
    ON CONFLICT DO NOTHING;

CREATE TABLE storage_reservations (
    tenant_id uuid NOT NULL
        CONSTRAINT storage_reservations_tenant_id_fkey REFERENCES tenants (id),
    id uuid NOT NULL,
    size_bytes bigint NOT NULL
        CONSTRAINT storage_reservations_size_bytes_check CHECK (size_bytes >= 0),
    expires_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT storage_reservations_pkey PRIMARY KEY (tenant_id, id)
);
CREATE INDEX storage_reservations_expires_at_idx ON storage_reservations (expires_at);

CREATE TABLE uploads (
    id uuid NOT NULL CONSTRAINT uploads_pkey PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT uploads_tenant_id_fkey REFERENCES tenants (id),
    adapter_name varchar NOT NULL,
    base_name varchar NOT NULL,
    status varchar NOT NULL CONSTRAINT uploads_status_check CHECK (
        status IN ('pending', 'completing', 'completed', 'aborted', 'expired', 'failed')),
    expires_at timestamptz NOT NULL,
    deadline_at timestamptz,
    claimed_at timestamptz,
    attempts integer NOT NULL,
    last_error varchar,
    error jsonb,
    version integer,
    ended_at timestamptz,
    cleared_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uploads_tenant_id_id_key UNIQUE (tenant_id, id)
);
CREATE INDEX uploads_uncleared_idx ON uploads (tenant_id, created_at) WHERE cleared_at IS NULL;

CREATE TABLE upload_files (
    tenant_id uuid NOT NULL,
    upload_id uuid NOT NULL,
    name varchar NOT NULL,
    position integer NOT NULL,
    size_bytes bigint NOT NULL CONSTRAINT upload_files_size_bytes_check CHECK (size_bytes > 0),
    part_bytes bigint NOT NULL CONSTRAINT upload_files_part_bytes_check CHECK (part_bytes > 0),
    sha256 varchar,
    store_upload_id varchar,
    CONSTRAINT upload_files_pkey PRIMARY KEY (tenant_id, upload_id, name),
    CONSTRAINT upload_files_tenant_id_upload_id_fkey FOREIGN KEY (tenant_id, upload_id)
        REFERENCES uploads (tenant_id, id) ON DELETE CASCADE
);

CREATE TABLE upload_parts (
    tenant_id uuid NOT NULL,
    upload_id uuid NOT NULL,
    file_name varchar NOT NULL,
    number integer NOT NULL
        CONSTRAINT upload_parts_number_check CHECK (number BETWEEN 1 AND 10000),
    CONSTRAINT upload_parts_pkey PRIMARY KEY (tenant_id, upload_id, file_name, number),
    CONSTRAINT upload_parts_tenant_id_upload_id_file_name_fkey
        FOREIGN KEY (tenant_id, upload_id, file_name)
        REFERENCES upload_files (tenant_id, upload_id, name) ON DELETE CASCADE
);
"""

TENANT_TABLES = ("blobs", "storage_reservations", "uploads", "upload_files", "upload_parts")

ROW_SECURITY = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON {table} TO loraplex_app
    USING (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid);
CREATE POLICY reader_sees_all ON {table} FOR SELECT TO loraplex_readonly USING (true);
"""

GRANTS = """
GRANT SELECT, INSERT ON upload_parts TO loraplex_app;
GRANT SELECT, INSERT, UPDATE ON blobs, uploads, upload_files TO loraplex_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON storage_reservations TO loraplex_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON
    blobs, storage_reservations, uploads, upload_files, upload_parts TO loraplex_system;
GRANT SELECT ON
    blobs, storage_reservations, uploads, upload_files, upload_parts TO loraplex_readonly;
"""


def upgrade() -> None:
    op.execute(TABLES)
    for table in TENANT_TABLES:
        op.execute(ROW_SECURITY.format(table=table))
    op.execute(GRANTS)
