import logging
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from loraplex.platform.database.roles import APP, ROLES, create_roles
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.processes import running

AWKWARD = """it's "quoted" %s {brace} \\ ;--"""


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server of this module's own, where roles come and go."""
    folder: Path = tmp_path_factory.mktemp("roles")
    server = Postgres(folder / "postgres", free_port(), durable=False)
    with running(server, folder / "logs"):
        yield server


def passwords(word: str) -> dict[str, str]:
    return {role: f"{word}-{role}" for role in ROLES}


def can_log_in(postgres: Postgres, role: str, password: str, database: str) -> bool:
    try:
        with psycopg.connect(
            host="127.0.0.1", port=postgres.port, user=role, password=password, dbname=database
        ):
            return True
    except psycopg.OperationalError:
        return False


def test_roles_are_made_again_without_harm_and_take_new_passwords(postgres: Postgres) -> None:
    create_roles(postgres.superuser_url, passwords("old"), database="twice")
    create_roles(postgres.superuser_url, passwords("new"), database="twice")
    for role in ROLES:
        assert can_log_in(postgres, role, f"new-{role}", "twice")
        assert not can_log_in(postgres, role, f"old-{role}", "twice")


def test_only_our_roles_may_connect(postgres: Postgres) -> None:
    create_roles(postgres.superuser_url, passwords("p"), database="closed")
    with psycopg.connect(postgres.superuser_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE stranger LOGIN PASSWORD 'stranger'")
    assert not can_log_in(postgres, "stranger", "stranger", "closed")


def test_roles_are_brought_back_to_what_they_may(postgres: Postgres) -> None:
    create_roles(postgres.superuser_url, passwords("p"))
    with psycopg.connect(postgres.superuser_url, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE {APP} SUPERUSER BYPASSRLS CREATEROLE")
        create_roles(postgres.superuser_url, passwords("p"))
        found = connection.execute(
            "SELECT rolname, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls FROM pg_roles"
            " WHERE rolname LIKE 'loraplex%' ORDER BY rolname"
        ).fetchall()
    assert found == [
        ("loraplex_app", False, False, False, False),
        ("loraplex_migrator", False, False, False, True),
        ("loraplex_readonly", False, False, False, False),
        ("loraplex_system", False, False, False, True),
    ]


def test_any_password_and_any_database_name_is_safe(postgres: Postgres) -> None:
    words = dict.fromkeys(ROLES, AWKWARD)
    create_roles(postgres.superuser_url, words, database=AWKWARD)
    assert can_log_in(postgres, APP, AWKWARD, AWKWARD)


def test_passwords_are_kept_as_scram_verifiers(postgres: Postgres) -> None:
    create_roles(postgres.superuser_url, passwords("clear"))
    with psycopg.connect(postgres.superuser_url) as connection:
        kept = connection.execute(
            "SELECT rolpassword FROM pg_authid WHERE rolname LIKE 'loraplex%'"
        ).fetchall()
    assert len(kept) == len(ROLES)
    assert all(password.startswith("SCRAM-SHA-256$") for (password,) in kept)


def test_the_servers_log_holds_no_password(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(postgres.superuser_url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET log_statement = 'all'")
        connection.execute("SELECT pg_reload_conf()")
        with caplog.at_level(logging.DEBUG):
            create_roles(postgres.superuser_url, passwords("unlogged"))
        connection.execute("ALTER SYSTEM RESET log_statement")
        connection.execute("SELECT pg_reload_conf()")
    log = postgres.folder.parent / "logs" / "postgres.log"
    assert "ALTER ROLE" in log.read_text()
    assert "unlogged-" not in log.read_text()
    assert "unlogged-" not in caplog.text
