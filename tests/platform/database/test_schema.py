"""What the catalogue must say of every table, also of those that do not exist yet."""

from collections.abc import Iterator

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from loraplex.adapters_registry.imports import models as _imports  # noqa: F401
from loraplex.adapters_registry.pins import models as _pins  # noqa: F401
from loraplex.adapters_registry.rollouts import models as _rollouts  # noqa: F401
from loraplex.adapters_registry.uploads import models as _uploads  # noqa: F401
from loraplex.adapters_registry.versions import models as _versions  # noqa: F401
from loraplex.platform.admission import models as _admission  # noqa: F401
from loraplex.platform.audit import models as _audit  # noqa: F401
from loraplex.platform.database import outbox as _outbox  # noqa: F401
from loraplex.platform.database.base import Base
from loraplex.platform.database.roles import APP, MIGRATOR, READONLY, SYSTEM
from loraplex.platform.database.urls import sqlalchemy_url
from loraplex.platform.idempotency import models as _idempotency  # noqa: F401
from loraplex.platform.lifecycle import models as _lifecycle  # noqa: F401
from loraplex.platform.metering import models as _metering  # noqa: F401
from loraplex.platform.people import models as _people  # noqa: F401
from loraplex.platform.pools import models as _pools  # noqa: F401
from loraplex.platform.public_prefixes import models as _prefixes  # noqa: F401
from loraplex.platform.settings import Settings
from loraplex.platform.slo import models as _slo  # noqa: F401
from loraplex.platform.switches import models as _switches  # noqa: F401
from loraplex.platform.tenancy import models as _tenancy  # noqa: F401
from loraplex.platform.webhooks import models as _webhooks  # noqa: F401

TENANT_TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind = 'r' AND (
    c.relname = 'tenants' OR EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id'))
"""

TENANT_COLUMN_RULE = "(tenant_id = (NULLIF(current_setting('loraplex.tenant_id'::text, true), "


@pytest.fixture(scope="module")
def catalogue(services: Settings) -> Iterator[Connection]:
    assert services.database_migrator_url is not None
    url = sqlalchemy_url(services.database_migrator_url.get_secret_value())
    with create_engine(url, poolclass=NullPool).connect() as connection:
        yield connection


def rows(catalogue: Connection, query: str, **values: object) -> list[tuple[object, ...]]:
    return [tuple(row) for row in catalogue.execute(text(query), values)]


def tenant_tables(catalogue: Connection) -> set[object]:
    return {table for (table,) in rows(catalogue, TENANT_TABLES)}


def test_the_models_are_what_the_migrations_make(catalogue: Connection) -> None:
    options = {"compare_type": True, "compare_server_default": True}
    context = MigrationContext.configure(catalogue, opts=options)
    assert compare_metadata(context, Base.metadata) == []


def test_every_tenant_table_forces_row_security(catalogue: Connection) -> None:
    forced = rows(
        catalogue,
        "SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity",
    )
    assert tenant_tables(catalogue) == {table for (table,) in forced}
    assert len(tenant_tables(catalogue)) >= 7


def test_every_tenant_table_shows_app_its_tenant_and_nothing_else(catalogue: Connection) -> None:
    policies = rows(
        catalogue,
        "SELECT tablename, cmd, permissive, qual, with_check FROM pg_policies"
        " WHERE (:app = ANY (roles) OR 'public' = ANY (roles)) AND permissive = 'PERMISSIVE'",
        app=APP,
    )
    assert sorted(str(table) for table, *_ in policies) == sorted(
        str(table) for table in tenant_tables(catalogue)
    )
    for table, command, permissive, qual, with_check in policies:
        if table == "prices":  # everybody's are everybody's to read
            assert (command, with_check) == ("SELECT", None)
            assert str(qual).startswith(f"((tenant_id IS NULL) OR {TENANT_COLUMN_RULE}")
            continue
        assert (command, permissive) == ("ALL", "PERMISSIVE")
        rule = str(qual).replace("(id = ", "(tenant_id = ") if table == "tenants" else str(qual)
        assert rule.startswith(TENANT_COLUMN_RULE)
        assert with_check == qual


def test_references_between_tenants_tables_carry_the_tenant(catalogue: Connection) -> None:
    """Foreign keys are checked past row security: one without the tenant would reach across."""
    references = rows(
        catalogue,
        """
        SELECT s.relname, t.relname, c.conname,
               ARRAY(SELECT a.attname::text FROM pg_attribute a
                     WHERE a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey))
        FROM pg_constraint c
        JOIN pg_class s ON s.oid = c.conrelid JOIN pg_class t ON t.oid = c.confrelid
        WHERE c.contype = 'f'
        """,
    )
    owned = tenant_tables(catalogue)
    between = [(name, columns) for s, t, name, columns in references if {s, t} <= owned]
    assert between
    for name, columns in between:
        assert "tenant_id" in columns, name  # type: ignore[operator]


def test_no_role_of_ours_but_the_migrator_owns_a_table(catalogue: Connection) -> None:
    owners = rows(
        catalogue,
        "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname IN ('public', 'gateway')",
    )
    assert owners == [("loraplex_migrator",)]


def test_app_may_do_only_what_a_gateway_needs(catalogue: Connection) -> None:
    granted: dict[object, set[object]] = {}
    for table, privilege in rows(
        catalogue,
        "SELECT table_name, privilege_type FROM information_schema.role_table_grants"
        " WHERE grantee = :app",
        app=APP,
    ):
        granted.setdefault(table, set()).add(privilege)
    assert granted == {
        "alembic_version": {"SELECT"},
        "switches": {"SELECT"},
        "public_prefixes": {"SELECT"},
        "audit_events": {"SELECT"},
        "tenants": {"SELECT"},
        "base_models": {"SELECT"},
        "workers": {"SELECT"},
        "adapters": {"SELECT", "INSERT", "UPDATE"},
        "adapter_versions": {"SELECT", "INSERT"},
        "adapter_pins": {"SELECT", "INSERT", "DELETE"},
        "blobs": {"SELECT", "INSERT", "UPDATE"},
        "storage_reservations": {"SELECT", "INSERT", "UPDATE", "DELETE"},
        "uploads": {"SELECT", "INSERT", "UPDATE"},
        "upload_files": {"SELECT", "INSERT", "UPDATE"},
        "upload_parts": {"SELECT", "INSERT"},
        "aliases": {"SELECT", "INSERT", "UPDATE"},
        "alias_moves": {"SELECT", "INSERT"},
        "rollouts": {"SELECT", "INSERT", "UPDATE"},
        "ledger": {"SELECT", "INSERT"},
        "ledger_arrivals": {"SELECT", "INSERT"},
        "prices": {"SELECT"},
        "usage_rollups": {"SELECT"},
        "stored_blobs": {"SELECT", "INSERT"},
        "storage_hours": {"SELECT"},
        "reservations": {"SELECT", "INSERT", "UPDATE", "DELETE"},
        "limits": {"SELECT", "INSERT", "UPDATE"},
        "limit_counters": {"SELECT"},
        "limit_settlements": {"SELECT"},
        "budget_alerts": {"SELECT", "INSERT"},
        "auth_failures": {"SELECT", "INSERT", "UPDATE"},
        "outbox": {"INSERT"},
        "imports": {"INSERT"},
        "idempotency_keys": {"SELECT", "INSERT", "UPDATE", "DELETE"},
        "memberships": {"SELECT"},
        "members": {"SELECT"},
        "invitations": {"INSERT"},
        "oidc_logins": {"SELECT", "INSERT", "DELETE"},
        "webhook_endpoints": {"SELECT", "INSERT", "UPDATE", "DELETE"},
        "webhook_events": {"SELECT", "INSERT"},
        "webhook_deliveries": {"SELECT", "INSERT", "UPDATE"},
        "webhook_attempts": {"SELECT"},
    }


@pytest.mark.parametrize("table", ["ledger", "prices", "storage_hours", "audit_events"])
def test_nobody_but_the_migrator_may_change_what_is_append_only(
    table: str, catalogue: Connection
) -> None:
    changers = rows(
        catalogue,
        "SELECT DISTINCT grantee FROM information_schema.role_table_grants"
        " WHERE table_name = :table AND privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE')",
        table=table,
    )
    assert changers == [(MIGRATOR,)]


def test_the_audit_logs_ids_and_times_are_nobodys_to_choose(catalogue: Connection) -> None:
    chosen = rows(
        catalogue,
        "SELECT DISTINCT column_name FROM information_schema.role_column_grants"
        " WHERE table_name = 'audit_events' AND privilege_type = 'INSERT' AND grantee <> :owner",
        owner=MIGRATOR,
    )
    assert {"tenant_id", "action"} <= {name for (name,) in chosen}
    assert not {"id", "created_at"} & {name for (name,) in chosen}


def test_readonly_reads_everything_but_secrets_and_writes_nothing(catalogue: Connection) -> None:
    privileges = rows(
        catalogue,
        "SELECT DISTINCT privilege_type FROM information_schema.role_column_grants"
        " WHERE grantee = :role",
        role=READONLY,
    )
    assert privileges == [("SELECT",)]
    unseen = rows(
        catalogue,
        """
        SELECT table_name || '.' || column_name FROM information_schema.columns c
        WHERE table_schema = 'public' AND NOT has_column_privilege(
            :role, format('public.%I', table_name), column_name, 'SELECT')
        """,
        role=READONLY,
    )
    assert {column for (column,) in unseen} == {
        "api_keys.key_hash",
        "operator_keys.key_hash",
        "web_sessions.token_hash",
        "operator_sessions.token_hash",
        "person_sessions.token_hash",
        "users.password_hash",
        "invitations.token_hash",
        "oidc_logins.state_hash",
        "oidc_logins.sealed",
        "former_tenant_names.name_mac",
        "imports.sealed_source",
        "wanted_adapters.reference",
        "idempotency_keys.fingerprint",
        "idempotency_keys.claim",
        "idempotency_keys.sealed_body",
        "webhook_endpoints.sealed_secret",
        "webhook_endpoints.previous_sealed_secret",
    }


def test_functions_that_pass_row_security_are_pinned_and_only_apps(catalogue: Connection) -> None:
    functions = rows(
        catalogue,
        """
        SELECT p.proname, pg_get_userbyid(p.proowner), p.proconfig,
               ARRAY(SELECT grantee::regrole::text FROM aclexplode(p.proacl) WHERE grantee <> 0
                     ORDER BY 1),
               EXISTS (SELECT FROM aclexplode(p.proacl) WHERE grantee = 0)
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE p.prosecdef AND n.nspname NOT IN ('pg_catalog', 'information_schema')
        """,
    )
    assert {name for name, *_ in functions} == {
        "busiest_tenants",
        "slo_choices",
        "find_key",
        "find_session",
        "open_session",
        "close_session",
        "find_key_credential",
        "find_session_credential",
        "open_key_session",
        "record_key_uses",
        "halted_tenants",
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
        "renew_reservations",
        "admit",
        "settle",
        "claim_lapsed",
        "recount_spending",
        "record_platform_event",
        "forget_audit_events",
        "pseudonymise_ledger",
        "pseudonymise_audit",
    }
    for name, owner, config, grantees, is_public in functions:
        # What is append-only has one way out: a function of the owner's, for jobs alone.
        forgets = name in ("forget_audit_events", "pseudonymise_ledger", "pseudonymise_audit")
        assert owner == (MIGRATOR if forgets else SYSTEM), name
        assert config == ["search_path=pg_catalog, pg_temp"], name
        assert grantees == ([MIGRATOR, SYSTEM] if forgets else [APP, SYSTEM]), name
        assert not is_public, name
