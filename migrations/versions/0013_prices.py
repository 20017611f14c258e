"""Prices that never change, and what a ledger row needs to be an exact bill.

A price without a tenant is everybody's, one without a base model every model's. The free one is
there from the start, so that nothing needs setting up; rows of before it, and of gateways that do
not know prices yet, are billed by it.

Nobody may change the ledger. When a tenant is deleted, the one function that may forgets how its
clients spelled the models; ids, tokens and money stay as they are.
"""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

PRICES = """
CREATE TABLE prices (
    id uuid NOT NULL DEFAULT gen_random_uuid() CONSTRAINT prices_pkey PRIMARY KEY,
    tenant_id uuid CONSTRAINT prices_tenant_id_fkey REFERENCES tenants (id),
    base_model varchar,
    input_micros_per_million bigint NOT NULL,
    cached_input_micros_per_million bigint NOT NULL,
    output_micros_per_million bigint NOT NULL,
    storage_micros_per_gib_month bigint,
    currency varchar NOT NULL CONSTRAINT prices_currency_check CHECK (currency ~ '^[A-Z]{3}$'),
    effective_from timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT prices_amounts_check CHECK (
        input_micros_per_million BETWEEN 0 AND 1000000000000
        AND cached_input_micros_per_million BETWEEN 0 AND input_micros_per_million
        AND output_micros_per_million BETWEEN 0 AND 1000000000000
        AND storage_micros_per_gib_month BETWEEN 0 AND 1000000000000
    ),
    CONSTRAINT prices_storage_check
        CHECK ((storage_micros_per_gib_month IS NULL) = (base_model IS NOT NULL)),
    CONSTRAINT prices_effective_from_check CHECK (
        effective_from >= created_at OR id = '00000000-0000-0000-0000-000000000000'
    )
);
CREATE UNIQUE INDEX prices_moment_idx
    ON prices (tenant_id, base_model, effective_from) NULLS NOT DISTINCT;
INSERT INTO prices (
    id, input_micros_per_million, cached_input_micros_per_million, output_micros_per_million,
    storage_micros_per_gib_month, currency, effective_from
) VALUES (
    '00000000-0000-0000-0000-000000000000', 0, 0, 0, 0, 'XXX', '1970-01-01T00:00:00Z'
);

CREATE TRIGGER notify_change
    AFTER INSERT ON prices FOR EACH ROW EXECUTE FUNCTION notify_change();

ALTER TABLE prices ENABLE ROW LEVEL SECURITY;
ALTER TABLE prices FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON prices FOR SELECT TO loraplex_app
    USING (tenant_id IS NULL
        OR tenant_id = NULLIF(current_setting('loraplex.tenant_id', true), '')::uuid);
CREATE POLICY reader_sees_all ON prices FOR SELECT TO loraplex_readonly USING (true);

GRANT SELECT ON prices TO loraplex_app, loraplex_system, loraplex_readonly;
GRANT INSERT (
    id, tenant_id, base_model, input_micros_per_million, cached_input_micros_per_million,
    output_micros_per_million, storage_micros_per_gib_month, currency, effective_from
) ON prices TO loraplex_system;
"""

# A price's id is kept by value: prices cannot go, and a reference would lock one row of theirs in
# every settlement. So is a member's, whom the row outlives.
LEDGER = """
ALTER TABLE ledger
    ALTER COLUMN api_key_id DROP NOT NULL,
    ADD COLUMN member_id uuid,
    ADD COLUMN base_model varchar,
    ADD COLUMN price_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    ADD COLUMN cost_micros bigint NOT NULL DEFAULT 0
        CONSTRAINT ledger_cost_micros_check CHECK (cost_micros >= 0),
    ADD COLUMN worker_id varchar,
    ADD COLUMN queue_ms bigint,
    ADD COLUMN ttft_ms bigint,
    ADD COLUMN duration_ms bigint,
    ADD COLUMN settled_by varchar NOT NULL DEFAULT 'gateway'
        CONSTRAINT ledger_settled_by_check CHECK (settled_by IN ('gateway', 'recovery')),
    ADD CONSTRAINT ledger_payer_check CHECK (num_nonnulls(api_key_id, member_id) > 0),
    ADD CONSTRAINT ledger_cached_check CHECK (cached_tokens <= prompt_tokens);
"""

PSEUDONYMISE = """
CREATE FUNCTION gateway.pseudonymise_ledger(deleted_tenant uuid) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH changed AS (
        UPDATE public.ledger l SET model = 'deleted'
        FROM public.tenants t
        WHERE t.id = deleted_tenant AND t.state <> 'active'
            AND l.tenant_id = t.id AND l.model <> 'deleted'
        RETURNING 1
    )
    SELECT count(*) FROM changed
$$;
REVOKE ALL ON FUNCTION gateway.pseudonymise_ledger FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gateway.pseudonymise_ledger TO loraplex_system;
"""


def upgrade() -> None:
    op.execute(PRICES)
    op.execute(LEDGER)
    # The owner's, who alone may change the ledger.
    op.execute("GRANT CREATE, USAGE ON SCHEMA gateway TO loraplex_migrator")
    op.execute(PSEUDONYMISE)
    op.execute("REVOKE CREATE ON SCHEMA gateway FROM loraplex_migrator")
