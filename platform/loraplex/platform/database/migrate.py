"""Brings the schema to this code's revision, one process at a time."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from loraplex.engine.protocol.errors import DomainError, Kind
from loraplex.platform.database.sessions import Database
from loraplex.platform.database.urls import sqlalchemy_url

MIGRATION_LOCK = 0x6D696772
WAIT_FOR_OTHERS = "120s"
"""How long to wait for another process that migrates; Alembic itself knows no lock."""
WAIT_FOR_TABLES = "5s"
"""How long a migration may queue for a table: everybody who comes later queues behind it."""
STATEMENT_TIME = "600s"
"""How long one statement of a migration may run: longer than any should."""


class SchemaTooNew(DomainError):
    """The database was migrated by a newer version of this code."""

    kind, code, field = Kind.CONFLICT, "schema_too_new", "revision"

    def __init__(self, found: str, known: str) -> None:
        super().__init__(
            f"The database's schema is at {found}, which this version does not know: its newest is "
            f"{known}. Start the version that migrated it, or a newer one, or restore a backup of "
            "before.",
            rule=f"{known} or older",
            value=found,
        )


def upgrade(migrator_url: str) -> None:
    """Run the migrations that are missing; those that ran before are left alone.

    Raises SchemaTooNew when the database has a revision that this code does not know, and
    sqlalchemy's OperationalError when another migration does not end, or a table stays locked, for
    longer than the limits above. Each migration is one transaction.
    """
    engine = create_engine(sqlalchemy_url(migrator_url), poolclass=NullPool)
    with engine.connect() as connection:
        _lock(connection)
        _refuse_newer(connection)
        # The lock is the session's: it ends with the connection, however this process ends.
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def expected_revision() -> str:
    """The revision this code is written for."""
    head = _scripts().get_current_head()
    assert head is not None, "there is a first migration"
    return head


def knows_revision(revision: str) -> bool:
    """Whether this code has that revision among its own, the newest or an older one."""
    return revision in {script.revision for script in _scripts().walk_revisions()}


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


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _refuse_newer(connection: Connection) -> None:
    is_migrated = connection.scalar(text("SELECT to_regclass('public.alembic_version')"))
    revision = is_migrated and connection.scalar(text("SELECT version_num FROM alembic_version"))
    connection.commit()  # or every migration would be within this transaction
    if revision is not None and not knows_revision(revision):
        raise SchemaTooNew(revision, expected_revision())


def _lock(connection: Connection) -> None:
    connection.execute(text(f"SET lock_timeout = '{WAIT_FOR_OTHERS}'"))
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": MIGRATION_LOCK})
    connection.execute(text(f"SET lock_timeout = '{WAIT_FOR_TABLES}'"))
    connection.execute(text(f"SET statement_timeout = '{STATEMENT_TIME}'"))
    connection.commit()
