"""Brings the schema to this code's revision, one process at a time."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from loraplex.platform.database.sessions import Database
from loraplex.platform.database.urls import sqlalchemy_url

MIGRATION_LOCK = 0x6D696772
WAIT_FOR_OTHERS = "120s"
"""How long to wait for another process that migrates; Alembic itself knows no lock."""
WAIT_FOR_TABLES = "5s"
"""How long a migration may queue for a table: everybody who comes later queues behind it."""


def upgrade(migrator_url: str) -> None:
    """Run the migrations that are missing; those that ran before are left alone.

    Raises sqlalchemy's OperationalError when another migration does not end, or a table stays
    locked, for longer than the limits above. Each migration is one transaction.
    """
    engine = create_engine(sqlalchemy_url(migrator_url), poolclass=NullPool)
    with engine.connect() as connection:
        _lock(connection)
        # The lock is the session's: it ends with the connection, however this process ends.
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def expected_revision() -> str:
    """The revision this code is written for."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None, "there is a first migration"
    return head


async def current_revision(database: Database) -> str | None:
    """The revision the database is at; None before the first migration."""
    async with database.unit_of_work() as session:
        if await session.scalar(text("SELECT to_regclass('public.alembic_version')")) is None:
            return None
        revision: str | None = await session.scalar(
            text("SELECT version_num FROM public.alembic_version")
        )
        return revision


def migrations_dir() -> Path:
    """Where the migrations lie: beside this package in a wheel, at the root of a checkout."""
    package = Path(__file__).parents[1]
    candidates = (package / "migrations", package.parents[2] / "migrations")
    for candidate in candidates:
        if (candidate / "env.py").is_file():
            return candidate
    raise FileNotFoundError(f"no migrations in {' or '.join(map(str, candidates))}")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _lock(connection: Connection) -> None:
    connection.execute(text(f"SET lock_timeout = '{WAIT_FOR_OTHERS}'"))
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": MIGRATION_LOCK})
    connection.execute(text(f"SET lock_timeout = '{WAIT_FOR_TABLES}'"))
    connection.commit()
