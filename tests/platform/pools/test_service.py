"""The worker registry on a real Postgres."""

from datetime import timedelta

import pytest
from sqlalchemy import func, update
from sqlalchemy.exc import ProgrammingError

from loraplex.platform.database.sessions import Database
from loraplex.platform.pools.errors import InvalidRegistration, UnknownWorker, WorkerSuperseded
from loraplex.platform.pools.models import Worker
from loraplex.platform.pools.repository import RegisteredWorker, WorkerRepository
from loraplex.platform.pools.service import EXPIRED_GRACE, WorkerRegistry
from tests.platform.pools.registrations import a_registration


async def row_of(database: Database, worker_id: str) -> RegisteredWorker | None:
    async with database.unit_of_work() as session:
        rows = await WorkerRepository(session).all()
    return next((row for row in rows if row.registration.worker_id == worker_id), None)


async def let_lapse(database: Database, worker_id: str, ago: timedelta) -> None:
    async with database.unit_of_work() as session:
        await session.execute(
            update(Worker)
            .where(Worker.worker_id == worker_id)
            .values(lease_expires_at=func.now() - ago)
        )


async def test_gateways_read_what_a_worker_announced(
    system_database: Database, database: Database
) -> None:
    registration = a_registration()
    async with system_database.unit_of_work() as session:
        await WorkerRegistry(session).register(registration)
    assert await row_of(database, registration.worker_id) == RegisteredWorker(registration, True)


async def test_gateways_register_nobody(database: Database) -> None:
    with pytest.raises(ProgrammingError, match="permission denied"):
        async with database.unit_of_work() as session:
            await WorkerRegistry(session).register(a_registration())


async def test_a_new_incarnation_replaces_the_old_which_must_end(
    system_database: Database,
) -> None:
    old = a_registration()
    new = a_registration(old.worker_id)
    async with system_database.unit_of_work() as session:
        registry = WorkerRegistry(session)
        await registry.register(old)
        await registry.renew(old.worker_id, old.incarnation)
        await registry.register(new)
        await registry.renew(new.worker_id, new.incarnation)
        with pytest.raises(WorkerSuperseded):
            await registry.renew(old.worker_id, old.incarnation)
        await registry.deregister(old.worker_id, old.incarnation)
    row = await row_of(system_database, new.worker_id)
    assert row is not None
    assert row.registration == new


async def test_a_lapsed_lease_can_be_renewed_until_it_is_swept(
    system_database: Database,
) -> None:
    registration = a_registration()
    worker_id, incarnation = registration.worker_id, registration.incarnation
    async with system_database.unit_of_work() as session:
        await WorkerRegistry(session).register(registration)
    await let_lapse(system_database, worker_id, timedelta(seconds=1))
    row = await row_of(system_database, worker_id)
    assert row is not None
    assert not row.has_lease
    async with system_database.unit_of_work() as session:
        assert worker_id not in await WorkerRegistry(session).sweep()
        await WorkerRegistry(session).renew(worker_id, incarnation)
    await let_lapse(system_database, worker_id, EXPIRED_GRACE + timedelta(seconds=1))
    async with system_database.unit_of_work() as session:
        assert worker_id in await WorkerRegistry(session).sweep()
        with pytest.raises(UnknownWorker):
            await WorkerRegistry(session).renew(worker_id, incarnation)


async def test_a_deregistered_worker_is_gone(system_database: Database) -> None:
    registration = a_registration()
    async with system_database.unit_of_work() as session:
        registry = WorkerRegistry(session)
        await registry.register(registration)
        await registry.deregister(registration.worker_id, registration.incarnation)
        await registry.deregister(registration.worker_id, registration.incarnation)
    assert await row_of(system_database, registration.worker_id) is None


async def test_another_protocol_is_refused_by_number(system_database: Database) -> None:
    async with system_database.unit_of_work() as session:
        with pytest.raises(InvalidRegistration, match="version 99") as refused:
            await WorkerRegistry(session).register(a_registration(protocol_version=99))
    assert (refused.value.field, refused.value.value) == ("protocol_version", 99)


async def test_a_row_of_another_version_does_not_hide_the_others(
    system_database: Database,
) -> None:
    strange, plain = a_registration(), a_registration()
    async with system_database.unit_of_work() as session:
        for registration in (strange, plain):
            await WorkerRegistry(session).register(registration)
        await session.execute(
            update(Worker)
            .where(Worker.worker_id == strange.worker_id)
            .values(registration={"worker_id": strange.worker_id})
        )
    assert await row_of(system_database, strange.worker_id) is None
    assert await row_of(system_database, plain.worker_id) is not None
