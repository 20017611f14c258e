"""The four roles: who may do what is decided by Postgres, not by our own carefulness.

loraplex_migrator   owns the database and its tables; migrations only; bypasses row security
loraplex_app        gateways: row security applies, and only the grants a gateway needs
loraplex_system     background jobs and operators; bypasses row security
loraplex_readonly   dashboards and people who look: reads, never writes, never sees hashes
"""

from collections.abc import Mapping

import psycopg
from psycopg import sql

from loraplex.platform.database.urls import libpq_url

MIGRATOR = "loraplex_migrator"
APP = "loraplex_app"
SYSTEM = "loraplex_system"
READONLY = "loraplex_readonly"
ROLES = (MIGRATOR, APP, SYSTEM, READONLY)
BYPASSING = frozenset({MIGRATOR, SYSTEM})

DATABASE = "loraplex"

ROLES_LOCK = 0x6C6F7261
"""Advisory lock (any constant of our own) that two starts at once meet at."""

GATEWAY_LIMITS = {
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
}
"""A gateway's transactions take milliseconds; one that does not must not hold others up."""


def create_roles(
    superuser_url: str, passwords: Mapping[str, str], *, database: str = DATABASE
) -> None:
    """Make the roles and the database, or bring existing ones to the same state.

    `passwords` maps each of ROLES to its password. They leave this process as SCRAM verifiers
    only, so neither the wire nor the server's log ever holds one.
    """
    with psycopg.connect(libpq_url(superuser_url), autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [ROLES_LOCK])
        for role in ROLES:
            _create_role(connection, role, passwords[role])
        # Migrations hand functions over to system, which only a member of it may do.
        connection.execute(_statement("GRANT {} TO {}", SYSTEM, MIGRATOR))
        for name, value in GATEWAY_LIMITS.items():
            connection.execute(_statement(f"ALTER ROLE {{}} SET {name} = '{value}'", APP))
        _create_database(connection, database)


def _create_role(connection: psycopg.Connection, role: str, password: str) -> None:
    exists = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone()
    if not exists:
        connection.execute(_statement("CREATE ROLE {}", role))
    verifier = connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    ).decode()
    bypass = "BYPASSRLS" if role in BYPASSING else "NOBYPASSRLS"
    connection.execute(
        _statement(
            "ALTER ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION "
            f"{bypass} PASSWORD {{}}",
            role,
            literal=verifier,
        )
    )


def _create_database(connection: psycopg.Connection, database: str) -> None:
    query = "SELECT 1 FROM pg_database WHERE datname = %s"
    if connection.execute(query, [database]).fetchone():
        connection.execute(_statement("ALTER DATABASE {} OWNER TO {}", database, MIGRATOR))
    else:
        connection.execute(
            _statement(
                "CREATE DATABASE {} OWNER {} ENCODING 'UTF8' TEMPLATE template0",
                database,
                MIGRATOR,
            )
        )
    connection.execute(_statement("REVOKE ALL ON DATABASE {} FROM PUBLIC", database))
    for role in ROLES:
        connection.execute(_statement("GRANT CONNECT ON DATABASE {} TO {}", database, role))


def _statement(template: str, *names: str, literal: str | None = None) -> sql.Composed:
    """Fill a statement: names become identifiers and the literal a literal, each quoted."""
    parts: list[sql.Composable] = [sql.Identifier(name) for name in names]
    if literal is not None:
        parts.append(sql.Literal(literal))
    return sql.SQL(template).format(*parts)
