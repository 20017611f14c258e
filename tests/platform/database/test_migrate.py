import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from loraplex.platform.database import migrate
from loraplex.platform.database.migrate import (
    SchemaTooNew,
    current_revision,
    expected_revision,
    upgrade,
)
from loraplex.platform.database.sessions import Database
from loraplex.platform.database.urls import libpq_url, sqlalchemy_url
from loraplex.platform.settings import Settings


@pytest.fixture
def migrator_url(services: Settings) -> str:
    assert services.database_migrator_url is not None
    return services.database_migrator_url.get_secret_value()


@pytest.fixture
def empty_database_url(migrator_url: str, postgres_superuser_url: str) -> str:
    """Role migrator's URL of a database that nothing has migrated yet."""
    name = f"empty_{uuid4().hex}"
    with psycopg.connect(postgres_superuser_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} OWNER loraplex_migrator")
    return make_url(migrator_url).set(database=name).render_as_string(hide_password=False)


async def test_every_role_can_tell_that_the_schema_is_this_codes(
    database: Database, system_database: Database
) -> None:
    assert await current_revision(database) == expected_revision()
    assert await current_revision(system_database) == expected_revision()


async def test_a_database_without_migrations_has_no_revision(empty_database_url: str) -> None:
    database = Database(empty_database_url)
    assert await current_revision(database) is None
    await database.dispose()


async def test_processes_that_migrate_at_once_do_it_once(empty_database_url: str) -> None:
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(upgrade, [empty_database_url] * 3))
    database = Database(empty_database_url)
    assert await current_revision(database) == expected_revision()
    await database.dispose()


def test_a_migration_that_cannot_have_its_lock_gives_up(
    migrator_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "WAIT_FOR_OTHERS", "100ms")
    with psycopg.connect(libpq_url(migrator_url)) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [migrate.MIGRATION_LOCK])
        with pytest.raises(OperationalError, match="lock timeout"):
            upgrade(migrator_url)
    upgrade(migrator_url)


def test_migrations_are_found_beside_the_package_of_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "loraplex" / "platform"
    (package / "migrations").mkdir(parents=True)
    (package / "migrations" / "env.py").touch()
    monkeypatch.setattr(migrate, "__file__", str(package / "database" / "migrate.py"))
    assert migrate.migrations_dir() == package / "migrations"


def test_missing_migrations_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "a" / "b" / "c" / "d" / "migrate.py"
    monkeypatch.setattr(migrate, "__file__", str(inside))
    with pytest.raises(FileNotFoundError, match="no migrations in"):
        migrate.migrations_dir()


def test_a_database_that_a_newer_version_migrated_is_refused_in_words(
    empty_database_url: str,
) -> None:
    upgrade(empty_database_url)
    with psycopg.connect(libpq_url(empty_database_url)) as owner:
        owner.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaTooNew, match="at 9999, which this version does not know"):
        upgrade(empty_database_url)


def test_a_statement_that_does_not_end_is_ended(empty_database_url: str) -> None:
    engine = create_engine(sqlalchemy_url(empty_database_url), poolclass=NullPool)
    with engine.connect() as connection:
        migrate._lock(connection)
        shown = connection.scalar(text("SELECT current_setting('statement_timeout')"))
        waited = connection.scalar(text("SELECT current_setting('lock_timeout')"))
    assert (shown, waited) == ("10min", "5s")


DESTRUCTIVE = re.compile(
    r"\bDROP\s+(TABLE|COLUMN|SCHEMA|VIEW|TYPE)\b|\bRENAME\s+(COLUMN\s+\w+\s+)?TO\b|\bTRUNCATE\b"
    r"|\bop\.(drop_table|drop_column|rename_table)\b"
    r"|\bALTER\s+COLUMN\s+\w+\s+(SET\s+DATA\s+)?TYPE\b",
    re.IGNORECASE,
)
CONTRACT = re.compile(r"^contract = \"[^\"]+\"$", re.MULTILINE)


def destroys(migration: str) -> bool:
    """Whether a migration takes away what a running older gateway may read, and is not marked."""
    return bool(DESTRUCTIVE.search(migration)) and not CONTRACT.search(migration)


def test_migrations_only_add_unless_they_say_what_they_contract() -> None:
    files = sorted((migrate.migrations_dir() / "versions").glob("*.py"))
    assert len(files) > 10
    assert [file.name for file in files if destroys(file.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("migration", "is_refused"),
    [
        ('op.execute("ALTER TABLE tenants DROP COLUMN state")', True),
        ('op.execute("drop table ledger")', True),
        ('op.execute("ALTER TABLE tenants RENAME COLUMN name TO title")', True),
        ('op.execute("ALTER TABLE tenants ALTER COLUMN name TYPE text")', True),
        ('op.drop_column("tenants", "state")', True),
        ('contract = "nothing since 1.4 reads it"\nop.execute("DROP TABLE old")', False),
        ('op.execute("ALTER TABLE tenants ALTER COLUMN name DROP DEFAULT")', False),
        ('op.execute("ALTER TABLE tenants DROP CONSTRAINT tenants_state_check")', False),
    ],
)
def test_what_counts_as_taking_away(migration: str, is_refused: bool) -> None:
    assert destroys(migration) is is_refused
