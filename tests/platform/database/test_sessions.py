from pathlib import Path

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from loraplex.platform.database.sessions import Database
from loraplex.platform.database.urls import libpq_url, sqlalchemy_url
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.processes import running
from loraplex.platform.pools.models import Worker


def new_worker(worker_id: str) -> Worker:
    return Worker(
        worker_id=worker_id,
        incarnation="1",
        pool="default",
        role="unified",
        base_name="tiny",
        registration={"secret": "of-the-registration"},
        lease_expires_at=text("now()"),
    )


async def exists(database: Database, worker_id: str) -> bool:
    async with database.unit_of_work() as session:
        mine = select(Worker).where(Worker.worker_id == worker_id)
        return await session.scalar(mine) is not None


async def test_leaving_commits(system_database: Database) -> None:
    async with system_database.unit_of_work() as session:
        session.add(new_worker("kept"))
    assert await exists(system_database, "kept")


async def test_an_exception_rolls_back_and_passes_on(system_database: Database) -> None:
    with pytest.raises(RuntimeError, match="halfway"):
        async with system_database.unit_of_work() as session:
            session.add(new_worker("dropped"))
            await session.flush()
            raise RuntimeError("halfway")
    assert not await exists(system_database, "dropped")


async def test_an_errors_text_holds_no_values(system_database: Database) -> None:
    with pytest.raises(IntegrityError) as caught:
        async with system_database.unit_of_work() as session:
            session.add(new_worker("twice"))
            await session.flush()
            session.expunge_all()
            session.add(new_worker("twice"))
    assert "workers_pkey" in str(caught.value)
    assert "of-the-registration" not in str(caught.value)


async def test_a_connection_that_died_in_the_pool_is_replaced(
    services_url: str, system_database: Database, postgres_superuser_url: str
) -> None:
    database = Database(services_url, pool_size=1)
    async with database.unit_of_work() as session:
        backend = await session.scalar(text("SELECT pg_backend_pid()"))
    superuser = Database(postgres_superuser_url)
    async with superuser.unit_of_work() as session:
        killed = text("SELECT pg_terminate_backend(:backend, 5000)")
        assert await session.scalar(killed, {"backend": backend})
    await superuser.dispose()
    async with database.unit_of_work() as session:
        assert await session.scalar(text("SELECT pg_backend_pid()")) != backend
    await database.dispose()


async def test_every_pooled_connection_is_replaced_after_a_restart(tmp_path: Path) -> None:
    postgres = Postgres(tmp_path / "postgres", free_port(), durable=False)
    database = Database(postgres.superuser_url, pool_size=3)
    with running(postgres, tmp_path / "logs"):
        async with (
            database.unit_of_work() as first,
            database.unit_of_work() as second,
            database.unit_of_work() as third,
        ):
            for session in (first, second, third):
                await session.execute(text("SELECT 1"))
    with running(postgres, tmp_path / "logs"):
        for _ in range(6):
            async with database.unit_of_work() as session:
                assert await session.scalar(text("SELECT 1")) == 1
        await database.dispose()


async def test_a_unit_of_work_sends_nothing_before_its_own_statements(
    services_url: str, postgres_superuser_url: str
) -> None:
    database = Database(services_url, pool_size=1)
    async with database.unit_of_work() as session:
        backend = await session.scalar(text("SELECT pg_backend_pid()"))
    superuser = Database(postgres_superuser_url)
    last = text("SELECT query, query_start FROM pg_stat_activity WHERE pid = :backend")
    async with superuser.unit_of_work() as looking:
        before = (await looking.execute(last, {"backend": backend})).one()
    async with database.unit_of_work():
        pass
    async with database.engine.connect(), superuser.unit_of_work() as looking:
        assert (await looking.execute(last, {"backend": backend})).one() == before
    await superuser.dispose()
    await database.dispose()


async def test_a_gateways_statement_cannot_run_for_ever(database: Database) -> None:
    async with database.unit_of_work() as session:
        limits = {
            name: await session.scalar(text(f"SHOW {name}"))
            for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
        }
    assert limits == {
        "statement_timeout": "30s",
        "lock_timeout": "10s",
        "idle_in_transaction_session_timeout": "1min",
    }


async def test_a_ping_tells_a_database_that_answers_from_one_that_does_not(
    database: Database,
) -> None:
    await database.ping()
    gone = Database("postgresql://nobody:nothing@127.0.0.1:1/none")
    with pytest.raises(OperationalError):
        await gone.ping()
    await gone.dispose()


async def test_a_wrong_password_is_not_echoed(services_url: str) -> None:
    url = sqlalchemy_url(services_url).set(password="wrong-but-secret")
    wrong = Database(url.render_as_string(hide_password=False))
    with pytest.raises(DBAPIError) as caught:
        await wrong.ping()
    assert "wrong-but-secret" not in str(caught.value)
    await wrong.dispose()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_any_postgres_url_will_do(scheme: str) -> None:
    url = f"{scheme}://app:p%40ss@db.internal:5433/loraplex?sslmode=require"
    assert sqlalchemy_url(url).drivername == "postgresql+psycopg"
    assert sqlalchemy_url(url).password == "p@ss"
    assert libpq_url(url) == "postgresql://app:p%40ss@db.internal:5433/loraplex?sslmode=require"
